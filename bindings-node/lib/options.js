'use strict'
// The types of what callers give; values, defaults and limits are the core's. Undefined means: not given.
const { invalid } = require('./error.js')

const is = {
  number: (value) => typeof value === 'number' || 'must be a number of milliseconds',
  fraction: (value) => typeof value === 'number' || 'must be a number',
  boolean: (value) => typeof value === 'boolean' || 'must be true or false',
  // Half of a character has no UTF-8, so that two such names would become one.
  string: (value) => (typeof value === 'string' && value.isWellFormed()) || 'must be a well-formed string',
  signal: (value) => typeof value?.addEventListener === 'function' || 'must be an AbortSignal',
}

const tryLock = { ttl: is.number, renew: is.boolean, maxHold: is.number, label: is.string, signal: is.signal }
const lock = { ...tryLock, wait: is.number }
const client = {
  ttl: is.number,
  wait: is.number,
  label: is.string,
  serverTimeout: is.number,
  drift: is.fraction,
  prefix: is.string,
  exactKeys: is.boolean,
  claimWindow: is.number,
  caFile: is.string,
  clientCert: is.string,
  clientKey: is.string,
}
const close = { drain: is.number }

function check(parameter, value, type) {
  const fits = type(value)
  if (fits !== true) throw invalid(parameter, value, fits)
  return value
}

// Gives `options` back if each is known and of its type. An unknown one is most likely a slip, and a lock that is
// taken without the limit that its caller asked for is worse than an error.
function checkOptions(options, types) {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null) throw invalid('options', options, 'must be an object')
  for (const name in options) {
    if (!Object.hasOwn(types, name)) throw invalid(name, options[name], 'is not an option here')
    if (options[name] !== undefined) check(name, options[name], types[name])
  }
  return options
}

module.exports = { is, types: { lock, tryLock, client, close }, check, checkOptions }
