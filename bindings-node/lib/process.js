'use strict'
// What the process has to do with it: its end, and its diagnostics channels.
const diagnostics = require('node:diagnostics_channel')
const { isMainThread } = require('node:worker_threads')
const native = require('./native.js')

const channels = {
  debug: diagnostics.channel('quorlock:debug'),
  info: diagnostics.channel('quorlock:info'),
  warn: diagnostics.channel('quorlock:warn'),
  error: diagnostics.channel('quorlock:error'),
}

// Exported to be kept: it listens until it is collected.
exports.listening = native.listen((level, message, fields) => {
  if (channels[level].hasSubscribers) channels[level].publish({ level, message, ...fields })
})

// A normal end, process.exit() or an uncaught error: what is still held is released, so that others need not wait for
// the TTL. A signal ends the process without this, unless the program handles it: that is the program's business.
// A worker thread ends its own clients only.
const clients = new Set()
const collected = new FinalizationRegistry((client) => clients.delete(client))
process.once('exit', () => {
  if (isMainThread) native.closeAll()
  else native.closeClients([...clients].map((client) => client.deref()).filter(Boolean))
})

exports.register = (client) => {
  const reference = new WeakRef(client)
  clients.add(reference)
  collected.register(client, reference)
}
