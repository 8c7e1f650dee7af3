'use strict'
// The package: what index.d.ts declares.
const { Client } = require('./lib/client.js')
const { Lease } = require('./lib/lease.js')
const { QuorlockError } = require('./lib/error.js')
const { version } = require('./package.json')

module.exports = { Client, Lease, QuorlockError, version }
