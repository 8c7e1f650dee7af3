// The kill run's worker in Node: takes the lock, works behind the store's check, and so on until SIGTERM.
//
// Arguments: the lock's servers (URLs with commas between), the store's port, the lock's name, this worker's name, a
// seed, TTL and server_timeout in ms. What it tells, and what it does at random, is in tests/README.md.

import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'quorlock'

const [urls, port, name, me, seed, ttl, serverTimeout] = process.argv.slice(2)
const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
const store = connect(Number(port), '127.0.0.1')
const replies = createInterface({ input: store })[Symbol.asyncIterator]()
let dice = Number(seed)

function tell(event, detail = '') {
  console.log(event, (Date.now() / 1000).toFixed(6), detail)
}

// The same numbers in every language.
function pick(below) {
  dice = (dice * 48271) % 2147483647
  return dice % below
}

async function act(...words) {
  store.write(`FCALL act 0 ${words.join(' ')}\r\n`)
  const { value: reply } = await replies.next()
  if (!reply.startsWith(':')) throw new Error(reply)
  return Number(reply.slice(1))
}

async function acquire(client) {
  const plan = pick(10)
  let signal = stop.signal
  let wait = Infinity
  if (plan < 2) signal = AbortSignal.any([signal, AbortSignal.timeout(1 + pick(300))])
  else if (plan < 3) wait = 1 + pick(200)
  else if (plan < 6) wait = 5000
  tell('wait')
  try {
    return await client.acquire(name, { wait, signal })
  } catch (error) {
    if (error.name === 'AbortError') tell('ended', 'cancelled')
    else if (error.kind === 'busy' || error.kind === 'unavailable') tell('ended', error.kind)
    else throw error
  }
}

const client = new Client(urls.split(','), { ttl: Number(ttl), serverTimeout: Number(serverTimeout) })
let bodies = 0
while (!stop.signal.aborted) {
  const lease = await acquire(client)
  if (!lease) continue
  tell('granted', lease.fence)
  const body = `${me}.${++bodies}`
  let value = await act(body, lease.fence)
  if (value >= 0) {
    await sleep(5 + pick(46))
    value = await act(body, lease.fence, value + 1)
  }
  if (value < 0) tell('refused', lease.held ? 'held' : 'lost')
  try {
    await lease.release()
    tell('released')
  } catch (error) {
    if (error.kind !== 'lost' && error.kind !== 'unavailable') throw error
    tell('unreleased', error.kind)
  }
}
await client.close()
store.destroy()
