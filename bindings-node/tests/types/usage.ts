// What users write, for the type checker: `tsc` must accept all of this, and refuse each line under @ts-expect-error.
import { Client, Lease, QuorlockError, type QuorlockErrorCode, type QuorlockEvent, version } from 'quorlock'
import { subscribe } from 'node:diagnostics_channel'

export async function orders(save: (row: { fence: number; signal: AbortSignal }) => Promise<string>) {
  const client = new Client(['redis://a', 'redis://b', 'redis://c'], { ttl: 10_000, exactKeys: true })
  const saved: string = await client.withLock('orders/42', { wait: 5_000 }, async (lease) =>
    save({ fence: lease.fence, signal: lease.signal }),
  )
  const length: number = await client.withLock('orders/42', () => saved.length)
  const lease: Lease = await client.acquire('orders/42', {
    ttl: 30_000,
    wait: Infinity,
    renew: true,
    maxHold: 60_000,
    label: 'me',
    signal: AbortSignal.timeout(100),
  })
  lease.ensureHeld()
  await lease.confirm()
  const remaining: number = await lease.extend(5_000)
  const released: boolean = await lease.release()
  const maybe: Lease | null = await client.tryAcquire('report')
  // @ts-expect-error: it may be null
  maybe.release()
  // @ts-expect-error: a try has no wait
  await client.tryAcquire('report', { wait: 1 })
  // @ts-expect-error: the name is a string
  await client.acquire(42)
  // @ts-expect-error: only a client makes leases
  new Lease()
  // @ts-expect-error: no such option
  await client.acquire('x', { timeout: 5 })
  // @ts-expect-error: the fence cannot be set
  lease.fence = 1
  for (const { address, up, roundTrip, cause } of await client.ping(1_000)) console.log(address, up, roundTrip, cause)
  await client.close({ drain: 1_000 })
  return { length, remaining, released, version }
}

export async function scoped() {
  await using client = new Client('redis://localhost')
  await using lease = await client.acquire('x')
  return lease.name
}

export function advice(error: unknown): string {
  if (!(error instanceof QuorlockError)) throw error
  const code: QuorlockErrorCode = error.code
  const causes: string[] = error.servers.map(({ address, cause }) => `${address}: ${cause}`)
  switch (code) {
    case 'QUORLOCK_BUSY':
      return `try later: ${error.lockName}`
    case 'QUORLOCK_LOST':
      return `stop; ${error.result}`
    default:
      return `${error.message} ${causes} ${error.attempts} ${error.elapsed} ${error.outcome} ${JSON.stringify(error)}`
  }
}

subscribe('quorlock:warn', (event) => console.warn((event as QuorlockEvent).message))
