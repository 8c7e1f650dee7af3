// Writes the state of an order to SQLite, safely even if this process stalls while it holds the lock.
//
//     node fenced_write.js orders.db paid [seconds of work before the write]
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from '@photostructure/sqlite' // the API of node:sqlite, which newer Node has built in
import { Client } from 'quorlock'

const [database, state, work = '0'] = process.argv.slice(2)
const db = new DatabaseSync(database)
db.exec('PRAGMA busy_timeout = 5000')
db.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)')

// The store remembers the largest fence that has written each row, and refuses a smaller one: 0 rows change.
const write = db.prepare(`INSERT INTO orders (id, state, fence) VALUES (42, ?, ?)
  ON CONFLICT (id) DO UPDATE SET state = excluded.state, fence = excluded.fence WHERE fence <= excluded.fence`)

const client = new Client((process.env.REDIS_URLS ?? 'redis://localhost').split(','))

// It is renewed while we hold it. The short TTL means that others wait for a dead holder 2 s at most.
await client.withLock('orders/42', { ttl: 2_000, wait: 5_000 }, async (lease) => {
  console.log(`holding the lock with fence ${lease.fence}`)

  // Whatever has to be done first: ask the payment service, ...
  await sleep(Number(work) * 1_000)

  // A pause before this line (swapped out, suspended) may have been longer than the TTL. No check here could rule out
  // another one right after it; so the store has the last word.
  const { changes } = write.run(state, lease.fence)
  if (changes === 0) throw new Error('refused: a newer holder has written this order')
  console.log('written')
})
// Without an error of the body's own, withLock rejects with QUORLOCK_LOST if the lease was lost on the way.
