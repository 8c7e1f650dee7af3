// Long work under a lock: stops when the lease is lost, and in good order at SIGTERM.
//
//     node long_work.js [parts of work, 100 ms each]
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'quorlock'

const parts = Number(process.argv[2] ?? 100)
const client = new Client((process.env.REDIS_URLS ?? 'redis://localhost').split(','))
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

async function work(lease) {
  console.log('holding the lock')
  // `lease.signal` aborts when the lease is lost. Hand it to whatever takes a signal: fetch, timers, database drivers.
  const signal = AbortSignal.any([lease.signal, stop.signal])
  for (let part = 1; part <= parts; part++) {
    await sleep(100, undefined, { signal })
    console.log(`part ${part} of ${parts}`)
  }
  console.log('done')
}

try {
  // It is renewed by a thread of the library, however long the work takes and whatever blocks the event loop.
  await client.withLock('reports/daily', { ttl: 3_000, wait: 5_000, signal: stop.signal }, work)
} catch (error) {
  // withLock has released what it held, and lets the body's error pass: here the AbortError of `sleep`.
  const loss = [error, error.cause].find((e) => e?.code === 'QUORLOCK_LOST')
  if (loss) {
    console.error(`lost the lock: stopped (${loss.message})`)
    process.exitCode = 2
  } else if (stop.signal.aborted) {
    console.log('stopped')
  } else {
    throw error
  }
}
// In a program with more than one task: refuses new locks, and gives the holders 5 s to finish.
await client.close({ drain: 5_000 })
