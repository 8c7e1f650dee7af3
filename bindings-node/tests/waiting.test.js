'use strict'
// Waiting in the server's queue: in order, at no cost, and leaving nothing.
const assert = require('node:assert/strict')
const { getEventListeners } = require('node:events')
const test = require('node:test')
const { Child, connect, fails, sleep, testbed, timed, until, within } = require('./helpers.js')

const waiting = (bed) => bed.redis(0, 'ZCARD', 'lock:{job}:queue')

for (const servers of [1, 3]) {
  test(`waiters of one process are served in the order of their calls, ${servers} servers`, async (t) => {
    const bed = await testbed(t, servers)
    const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
    const held = await a.acquire('job')
    await until(() => bed.redis(0, 'EXISTS', 'lock:{job}')) // a majority is enough for a lease
    const served = []
    const waits = []
    for (let i = 0; i < 20; i++) {
      waits.push(b.withLock('job', { wait: 20_000 }, async () => void served.push(i)))
      await until(async () => (await waiting(bed)) === i + 1)
    }
    await held.release()
    await Promise.all(waits)
    assert.deepEqual(served, [...served.keys()])
    assert.deepEqual((await bed.redis(0, 'KEYS', 'lock:{*')).sort(), ['lock:{job}:fence'])
  })
}

test('o37_a_wait_that_is_aborted_leaves_the_queue', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  const held = await a.acquire('job', { ttl: 30_000 })
  const controller = new AbortController()
  const first = b.acquire('job', { signal: controller.signal })
  await until(async () => (await waiting(bed)) === 1)
  const second = b.acquire('job', { wait: 20_000 })
  await until(async () => (await waiting(bed)) === 2)
  controller.abort()
  await assert.rejects(first, { name: 'AbortError' })
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  await until(async () => (await waiting(bed)) === 1)
  const { took } = await timed(() => held.release().then(() => second))
  within(took, 0, 700)
  await (await second).release()
  assert.deepEqual(await bed.redis(0, 'KEYS', 'lock:{*'), ['lock:{job}:fence'])
  await b.close()
  await fails(b.acquire('job'), 'QUORLOCK_CLOSED')
})

test('o47_many_long_waits_cost_neither_memory_nor_warnings', async (t) => {
  // 4 s in place of 60, and a TTL so short that each waiter looks many times.
  const bed = await testbed(t)
  const held = await connect(t, bed.urls).acquire('job', { ttl: 1_000 })
  const child = new Child(t, bed.urls[0], async (connect) => {
    const client = connect()
    const { signal } = new AbortController()
    const waits = Array.from({ length: 51 }, () => client.withLock('job', { ttl: 1_000, signal }, async () => {}))
    const rss = () => (gc(), process.memoryUsage.rss())
    setTimeout(() => {
      const before = rss()
      setTimeout(() => console.log('grown', rss() - before), 4_000)
    }, 1_000)
    await Promise.all(waits)
    console.log('served')
    await client.close()
  }, { flags: ['--expose-gc'] })
  const grown = Number((await child.line('grown')).split(' ')[1])
  assert.ok(grown < 5 << 20, `${grown} bytes`)
  assert.equal(await waiting(bed), 51)
  await held.release()
  await child.line('served')
  await child.end() // with nothing on stderr
})
