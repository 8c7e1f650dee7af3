'use strict'
// The calls that run on the core's threads, from here to their promises. A call that somebody waits for keeps the
// process alive; clients, leases and watches do not.
const { setInterval } = require('node:timers')
const native = require('./native.js')
const { AbortError, QuorlockError } = require('./error.js')

const open = new Map() // the number of each call that is under way, and who waits for it
let last = 0

const port = native.openPort((number, failure, value) => {
  const call = open.get(number)
  if (call === undefined) {
    // Its caller left while the result was on its way. A lease that nobody receives is released.
    if (value instanceof native.Lease) value.release(0)
    return
  }
  open.delete(number)
  call.settle(failure, value)
})

// The timer never does anything: it is what Node counts, and costs nothing to count.
const awake = setInterval(() => {}, 0x7fffffff).unref()
let awaited = 0

// One listener for each signal, however many calls it may end: Node warns of a leak at the eleventh.
const ends = new WeakMap() // a signal, and what to do when it is aborted

function onAbort(signal, end) {
  let all = ends.get(signal)
  if (all === undefined) {
    all = { each: new Set(), listener: () => all.each.forEach((end) => end()) }
    ends.set(signal, all)
    signal.addEventListener('abort', all.listener)
  }
  all.each.add(end)
}

function offAbort(signal, end) {
  const all = ends.get(signal)
  all.each.delete(end)
  if (all.each.size > 0) return
  ends.delete(signal)
  signal.removeEventListener('abort', all.listener)
}

class Call {
  constructor(owner, resolve, reject, signal) {
    this.owner = owner // so that it is not collected in the middle of the call
    this.resolve = resolve
    this.reject = reject
    this.signal = signal
    this.onAbort = undefined
    if (awaited++ === 0) awake.ref()
  }

  settle(failure, value) {
    if (--awaited === 0) awake.unref()
    if (this.onAbort !== undefined) offAbort(this.signal, this.onAbort)
    if (failure === null || failure === undefined) this.resolve(value)
    else this.reject(failure)
  }
}

// Calls `begin(number)`, which starts a native call, and waits for its result. An aborted `signal` ends the attempt.
async function run(owner, begin, signal) {
  if (signal?.aborted) throw new AbortError(signal)
  try {
    return await new Promise((resolve, reject) => {
      const number = ++last
      const attempt = begin(number)
      const call = new Call(owner, resolve, reject, signal)
      open.set(number, call)
      if (signal === undefined) return
      call.onAbort = () => {
        attempt.cancel()
        open.delete(number)
        call.settle({ code: 'ABORT_ERR' })
      }
      onAbort(signal, call.onAbort)
    })
  } catch (failure) {
    // Made here and not where the failure arrived, so that its stack shows who called.
    throw failure.code === 'ABORT_ERR' ? new AbortError(signal) : QuorlockError.from(failure)
  }
}

// A number for a native watch, which calls `onLoss(failure)` once or never.
function watch(onLoss) {
  const number = ++last
  open.set(number, { settle: (failure) => failure && onLoss(failure) })
  return number
}

module.exports = { port, run, watch }
