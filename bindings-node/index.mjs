import quorlock from './index.js'

export const { Client, Lease, QuorlockError, version } = quorlock
