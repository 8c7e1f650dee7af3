// An HTTP server whose handler waits for a lock at most 5 s, and then answers 503.
//
//     PORT=8080 node http_handler.js
//     curl -X POST http://localhost:8080/orders/42
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'quorlock'

// One client for the whole program.
const client = new Client((process.env.REDIS_URLS ?? 'redis://localhost').split(','))

// The work that needs the lock.
async function changeOrder(lease) {
  await sleep(50)
  return `done with fence ${lease.fence}`
}

// POST /orders/42: locks "orders/42".
async function handle(path, signal) {
  try {
    const text = await client.withLock(path.slice(1), { wait: 5_000, signal }, changeOrder)
    return [200, text]
  } catch (error) {
    // Others hold it, or too few servers answer: the caller may try again.
    const again = error.code === 'QUORLOCK_BUSY' || error.code === 'QUORLOCK_UNAVAILABLE'
    return [again ? 503 : 500, error.message]
  }
}

const server = createServer(async (request, response) => {
  // A caller who hangs up ends the wait.
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const [status, text] = await handle(request.url, gone.signal)
  response.writeHead(status, status === 503 ? { 'Retry-After': '1' } : {}).end(`${text}\n`)
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
