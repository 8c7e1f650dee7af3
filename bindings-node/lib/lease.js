'use strict'
const { AsyncResource } = require('node:async_hooks')
const { inspect } = require('node:util')
const { run, watch } = require('./calls.js')
const { QuorlockError } = require('./error.js')
const { check, is } = require('./options.js')

// Made out here, so that it keeps nothing but these two: a signal that is watched must not keep its lease.
function abort(controller, context) {
  return (failure) => context.runInAsyncScope(() => controller.abort(new QuorlockError(failure)))
}

// A lock that is held. Documented in ../index.d.ts.
class Lease {
  #native
  #name
  #fence
  #context
  #controller

  constructor(native, name) {
    this.#native = native
    this.#name = name
    this.#fence = native.accept()
    this.#context = new AsyncResource('QuorlockLease', { requireManualDestroy: true })
  }

  get name() {
    return this.#name
  }

  get fence() {
    return this.#fence
  }

  get held() {
    return this.#native.held
  }

  get remaining() {
    return this.#native.remaining
  }

  get lostReason() {
    return this.#native.lostReason ?? undefined
  }

  // Made at the first use: most leases end without anybody having asked for it.
  get signal() {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#native.watch(watch(abort(this.#controller, this.#context)))
    }
    return this.#controller.signal
  }

  ensureHeld() {
    const failure = this.#native.ensureHeld()
    if (failure) throw new QuorlockError(failure)
  }

  async confirm() {
    await run(this, (number) => this.#native.confirm(number))
  }

  async extend(ttl) {
    if (ttl !== undefined) check('ttl', ttl, is.number)
    return await run(this, (number) => this.#native.extend(number, ttl))
  }

  async release() {
    return await run(this, (number) => this.#native.release(number))
  }

  async [Symbol.asyncDispose]() {
    // What is worth knowing here, a loss, has been told by `signal`, and the block's own error must come out.
    await this.release().catch(() => {})
  }

  [inspect.custom](_depth, options) {
    const { name, fence, held, remaining, lostReason } = this
    return `Lease ${inspect({ name, fence, held, remaining, lostReason }, options)}`
  }
}

module.exports = { Lease }
