'use strict'
// What goes wrong, as JavaScript shows it. The native half gives a plain failure; here it becomes an Error.

// What every failure of quorlock is. `code` is stable; the text is not.
class QuorlockError extends Error {
  constructor(failure) {
    super(failure.message)
    this.code = failure.code
    this.kind = failure.kind
    this.lockName = failure.lockName
    this.servers = failure.servers
    this.attempts = failure.attempts
    this.elapsed = failure.elapsed
    this.outcome = failure.outcome
  }

  // An Error instead of a failure is a panic that was caught in the native half.
  static from(failure) {
    if (!(failure instanceof Error)) return new QuorlockError(failure)
    const { message } = failure
    return new QuorlockError({ code: 'QUORLOCK_INTERNAL', kind: 'internal', message, servers: [], attempts: 0, elapsed: 0 })
  }

  toJSON() {
    const { name, code, kind, message, lockName, servers, attempts, elapsed, outcome } = this
    return { name, code, kind, message, lockName, servers, attempts, elapsed, outcome }
  }
}
Object.defineProperty(QuorlockError.prototype, 'name', { value: 'QuorlockError', writable: true, configurable: true })

// The same as Node's own functions reject with when their signal aborts (it is not exported there).
class AbortError extends Error {
  constructor(signal) {
    super('The operation was aborted', { cause: signal?.reason })
    this.code = 'ABORT_ERR'
  }
}
Object.defineProperty(AbortError.prototype, 'name', { value: 'AbortError', writable: true, configurable: true })

// A value of the wrong type, in the words that the core has for a wrong value.
function invalid(parameter, value, why) {
  const text = typeof value === 'string' ? JSON.stringify(value) : typeof value === 'bigint' ? `${value}n` : shown(value)
  return new QuorlockError({
    code: 'QUORLOCK_INVALID',
    kind: 'invalid',
    message: `${parameter} = ${text}: ${why}`,
    servers: [],
    attempts: 0,
    elapsed: 0,
  })
}

function shown(value) {
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

module.exports = { QuorlockError, AbortError, invalid }
