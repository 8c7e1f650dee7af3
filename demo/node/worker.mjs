// The demo's worker in Node: adds 1 to a counter in SQLite, again and again, under the lock that all workers share.
//
// Arguments: the database, how many increments, the increment at which to pause, `fenced` or `unfenced`, the servers'
// URLs.

import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from '@photostructure/sqlite' // the API of node:sqlite, which newer Node has built in
import { Client } from 'quorlock'

const [database, increments, pauseAt, mode, ...urls] = process.argv.slice(2)
const client = new Client(urls, { ttl: 1500, wait: 60_000 })
const store = new DatabaseSync(database)
store.exec('PRAGMA busy_timeout = 10000')
// Reading gives the value, and from there on the store refuses smaller fences; neither statement changes a row if the
// store has seen a larger one.
const read = store.prepare('UPDATE counter SET fence = ?1 WHERE fence <= ?1 RETURNING value')
const write = store.prepare('UPDATE counter SET value = ? WHERE fence <= ?')
const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

function tell(event, details) {
  console.log(JSON.stringify({ event, t: Number(process.hrtime.bigint()), ...details }))
}

async function addOneWith(lease, pause) {
  // Without fencing every holder looks the same to the store.
  const fence = mode === 'fenced' ? lease.fence : 0
  const row = read.get(fence)
  await sleep(10) // the work
  lease.ensureHeld()
  if (pause) {
    // Between the check and the write: no check of the lease can be the last thing that happens.
    tell('paused', { remaining_ms: Math.floor(lease.remaining) })
    await orders.next()
  }
  const written = row !== undefined && write.run(row.value + 1, fence).changes === 1
  tell(written ? 'wrote' : 'refused')
  return written
}

// Whether the increment was written: else it is to be tried again.
async function addOne(pause) {
  let written = false
  tell('asked')
  try {
    await client.withLock('counter', async (lease) => {
      tell('acquired', { fence: lease.fence })
      written = await addOneWith(lease, pause)
    })
    tell('released')
  } catch (error) {
    if (error.code === 'QUORLOCK_LOST') tell('lost')
    else if (error.code === 'QUORLOCK_UNAVAILABLE') tell('unavailable')
    else throw error
  }
  return written
}

tell('ready')
await orders.next()
let paused = false
for (let done = 0; done < Number(increments); ) {
  const pause = done + 1 === Number(pauseAt) && !paused
  paused ||= pause
  if (await addOne(pause)) done += 1
  await sleep(20) // its other work
}
await client.close()
store.close()
process.stdin.destroy()
