'use strict'
const { inspect } = require('node:util')
const native = require('./native.js')
const { port, run } = require('./calls.js')
const { QuorlockError, invalid } = require('./error.js')
const { Lease } = require('./lease.js')
const { check, checkOptions, is, types } = require('./options.js')
const { register } = require('./process.js')

// Its servers, and the entry to every verb. Documented in ../index.d.ts.
class Client {
  #native

  constructor(urls, options) {
    urls = typeof urls === 'string' ? [urls] : urls
    if (!Array.isArray(urls) || !urls.every((url) => typeof url === 'string')) {
      throw invalid('urls', urls, 'must be a URL or an array of URLs')
    }
    const client = native.connect(port, urls, checkOptions(options, types.client))
    if (!(client instanceof native.Client)) throw new QuorlockError(client)
    this.#native = client
    register(client)
  }

  async acquire(name, options) {
    check('name', name, is.string)
    const { ttl, wait, renew, maxHold, label, signal } = checkOptions(options, types.lock)
    const begin = (number) => this.#native.acquire(number, signal !== undefined, name, ttl, wait, renew, maxHold, label)
    return new Lease(await run(this, begin, signal), name)
  }

  async tryAcquire(name, options) {
    check('name', name, is.string)
    const { ttl, renew, maxHold, label, signal } = checkOptions(options, types.tryLock)
    const begin = (number) => this.#native.tryAcquire(number, signal !== undefined, name, ttl, renew, maxHold, label)
    const lease = await run(this, begin, signal)
    return lease ? new Lease(lease, name) : null
  }

  async withLock(name, options, body) {
    if (typeof options === 'function') [options, body] = [undefined, options]
    if (typeof body !== 'function') throw invalid('body', body, 'must be a function')
    const lease = await this.acquire(name, options)
    let result
    try {
      result = await body(lease)
    } catch (error) {
      attach(await lossOf(lease), error)
      throw error
    }
    const loss = await lossOf(lease)
    if (loss === undefined) return result
    throw Object.defineProperty(loss, 'result', { value: result })
  }

  async ping(timeout) {
    check('timeout', timeout, is.number)
    return await run(this, (number) => this.#native.ping(number, timeout))
  }

  async inspect(name) {
    check('name', name, is.string)
    const lock = await run(this, (number) => this.#native.inspect(number, name))
    if (lock.holder?.since !== undefined) lock.holder.since = new Date(lock.holder.since)
    return { holder: null, fence: null, ...lock }
  }

  async breakLock(name) {
    check('name', name, is.string)
    return await run(this, (number) => this.#native.breakLock(number, name))
  }

  stats() {
    return this.#native.stats()
  }

  async close(options) {
    const { drain } = checkOptions(options, types.close)
    await run(this, (number) => this.#native.close(number, drain))
  }

  async [Symbol.asyncDispose]() {
    await this.close().catch(() => {})
  }

  [inspect.custom]() {
    return 'Client {}'
  }
}

// Releases the lease and gives the loss, if it was lost. Any other failure is no news to the body's caller: the body ran
// under the lock, and what could not be released runs out.
async function lossOf(lease) {
  try {
    await lease.release()
  } catch (error) {
    if (error.code === 'QUORLOCK_LOST') return error
  }
}

// The body's own error wins and stays what it is; the loss becomes its cause, unless it has one or is a loss itself.
function attach(loss, error) {
  const open = error instanceof Error && !('cause' in error) && Object.isExtensible(error)
  if (loss !== undefined && open && error.code !== loss.code) {
    Object.defineProperty(error, 'cause', { value: loss, writable: true, configurable: true })
  }
}

module.exports = { Client }
