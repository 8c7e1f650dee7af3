'use strict'
// What a lock is. Names with an o are field cases: the same name is the same case in every language.
const assert = require('node:assert/strict')
const test = require('node:test')
const { inspect } = require('node:util')
const { Client, Lease, QuorlockError, version } = require('../index.js')
const { Child, connect, fails, sleep, testbed, timed, until, within } = require('./helpers.js')

test('a lease says what it is, and never its token', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls[0])
  const lease = await client.acquire('orders/42')
  assert.ok(lease instanceof Lease)
  assert.equal(lease.name, 'orders/42')
  assert.equal(lease.held, true)
  assert.equal(lease.lostReason, undefined)
  within(lease.remaining, 28_000, 29_698)
  assert.ok(Number.isSafeInteger(lease.fence) && lease.fence > 0)
  lease.ensureHeld()
  assert.equal(await lease.confirm(), undefined)
  const token = await bed.redis(0, 'GET', 'lock:{orders/42}')
  assert.ok(token.length > 40)
  assert.ok(!`${inspect(lease)}${inspect(client)}${JSON.stringify(lease)}`.includes(token))
  assert.match(inspect(lease), /^Lease {.*name: 'orders\/42'.*held: true/s)
  assert.equal(await lease.release(), true)
  assert.deepEqual([lease.held, lease.remaining, lease.lostReason], [false, 0, undefined])
  assert.throws(() => lease.ensureHeld(), { code: 'QUORLOCK_CLOSED', lockName: 'orders/42' })
  await fails(lease.confirm(), 'QUORLOCK_CLOSED')
  await fails(lease.extend(), 'QUORLOCK_CLOSED')
  const next = await client.acquire('orders/42')
  assert.ok(next.fence > lease.fence)
  assert.equal(typeof version, 'string')
})

test('a try gives null while others hold the lock', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  const lease = await a.tryAcquire('job')
  assert.ok(lease instanceof Lease)
  assert.equal(await b.tryAcquire('job'), null)
  assert.equal(await a.tryAcquire('job'), null, 'not re-entrant')
  await lease.release()
  assert.ok(await b.tryAcquire('job'))
})

test('withLock gives what its body gives, and releases', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  assert.equal(await client.withLock('job', (lease) => lease.name), 'job')
  assert.equal(await client.withLock('job', { ttl: 5_000 }, async (lease) => lease.held), true)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  const error = new Error('mine')
  await assert.rejects(client.withLock('job', () => { throw error }), (thrown) => thrown === error)
  assert.ok(!('cause' in error))
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  await fails(client.withLock('job'), 'QUORLOCK_INVALID')
  // A release in the body is the end of the lease, and not a loss.
  assert.equal(await client.withLock('job', async (lease) => lease.release()), true)
})

test('await using ends a lease and a client', async (t) => {
  const bed = await testbed(t)
  const client = new Client(bed.urls)
  const lease = await client.acquire('job')
  await lease[Symbol.asyncDispose]()
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  await lease[Symbol.asyncDispose]()
  await client[Symbol.asyncDispose]()
  await fails(client.acquire('job'), 'QUORLOCK_CLOSED')
  await client[Symbol.asyncDispose]()
})

test('the states of the servers', async (t) => {
  const bed = await testbed(t, 3)
  const client = connect(t, bed.urls)
  await bed.ask('kill 2')
  const states = await client.ping(1_000)
  assert.deepEqual(states.map(({ address }) => `redis://${address}`), bed.urls)
  assert.deepEqual(states.map(({ up }) => up), [true, true, false])
  assert.ok(states[0].roundTrip > 0 && states[0].cause === undefined)
  assert.ok(states[2].roundTrip === undefined && states[2].cause.length > 0)
  await fails(client.ping(), 'QUORLOCK_INVALID')
  await client.close()
  await fails(client.ping(1_000), 'QUORLOCK_CLOSED')
})

test('close waits for holders, then tells them and releases', async (t) => {
  const bed = await testbed(t)
  const [client, other] = [connect(t, bed.urls), connect(t, bed.urls)]
  const [quick, stuck] = [await client.acquire('quick'), await client.acquire('stuck')]
  const lost = new Promise((resolve) => stuck.signal.addEventListener('abort', resolve))
  const waiter = fails(client.acquire('stuck'), 'QUORLOCK_CLOSED')
  const closing = timed(() => client.close({ drain: 300 }))
  await waiter
  await fails(client.acquire('new'), 'QUORLOCK_CLOSED')
  assert.equal(await quick.release(), true)
  await lost
  assert.equal(stuck.signal.reason.code, 'QUORLOCK_LOST')
  assert.equal(stuck.lostReason, 'closed')
  within((await closing).took, 295, 2_000)
  assert.ok(await other.tryAcquire('stuck'))
})

test('o01_fractional_ttl_is_cut_to_whole_milliseconds', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls, { serverTimeout: 60 })
  const { took, value } = await timed(() => client.acquire('a', { ttl: 123.45, wait: 2_000, renew: false }))
  within(took, 0, 1_000)
  within(value.remaining, 0, 123)
  const pttl = await bed.redis(0, 'PTTL', 'lock:{a}')
  within(pttl, -2, 123)
})

test('o02_ttl_below_the_smallest_usable_one_is_invalid', async (t) => {
  const bed = await testbed(t, 3)
  const client = connect(t, bed.urls)
  for (const i of [0, 1, 2]) await bed.ask(`monitor ${i} start`)
  for (const ttl of [1, 2, 0, -1]) {
    const error = await fails(client.acquire('a', { ttl, wait: 5_000 }), 'QUORLOCK_INVALID')
    assert.match(error.message, /^"?.*ttl = .*ms/)
    await fails(client.tryAcquire('a', { ttl }), 'QUORLOCK_INVALID')
  }
  for (const i of [0, 1, 2]) assert.equal(await bed.ask(`monitor ${i} count`), '0')
})

test('o03_thirty_seconds', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await client.acquire('a', { ttl: 30_000 })
  within(await bed.redis(0, 'PTTL', 'lock:{a}'), 29_000, 30_000)
  await fails(client.acquire('b', { ttl: 30 }), 'QUORLOCK_INVALID') // seconds meant, and 30 ms said
})

test('o04_extend_replaces', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls).acquire('a', { ttl: 10_000, renew: false })
  for (let i = 0; i < 3; i++) {
    await sleep(300)
    const remaining = await lease.extend(10_000)
    within(remaining, 9_500, 9_898)
    within(lease.remaining, 9_400, 9_898)
    within(await bed.redis(0, 'PTTL', 'lock:{a}'), 9_500, 10_000)
  }
  within(await lease.extend(), 9_500, 9_898)
  for (const ttl of [0, -5, NaN, '5', null, 10n]) await fails(lease.extend(ttl), 'QUORLOCK_INVALID')
})

test('o05_no_key_without_an_expiry', async (t) => {
  const bed = await testbed(t)
  const loop = async (connect) => {
    const client = connect({ ttl: 1_000 })
    console.log('go')
    for (let i = 0; ; i++) await client.acquire(`key${i}`)
  }
  for (let round = 0; round < 8; round++) {
    const child = new Child(t, bed.urls[0], loop)
    await child.line('go')
    await until(async () => (await bed.redis(0, 'EXISTS', `lock:{key${round}}`)) === 1)
    child.process.kill('SIGKILL')
    await child.exited
    for (const key of await bed.redis(0, 'KEYS', 'lock:*')) {
      const pttl = await bed.redis(0, 'PTTL', key) // -2: it is gone by now
      if (key.endsWith('}') && pttl !== -2) within(pttl, 0, 1_000, `ms of ${key}`)
    }
  }
  await until(async () => (await bed.redis(0, 'KEYS', 'lock:*')).every((key) => !key.endsWith('}')), 3_000)
})

test('o06_hostile_arguments', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await bed.ask('monitor 0 start')
  const numbers = [0, -1, -1000n, 0n, NaN, -Infinity, '5', null, 2 ** 53, Number(2n ** 63n - 1n), {}, [], true, Symbol('s')]
  for (const ttl of [...numbers, Infinity]) {
    const error = await fails(client.acquire('a', { ttl }), 'QUORLOCK_INVALID')
    assert.match(error.message, /ttl = /)
    await fails(client.tryAcquire('a', { ttl }), 'QUORLOCK_INVALID')
    await fails(client.withLock('a', { ttl }, () => assert.fail()), 'QUORLOCK_INVALID')
  }
  for (const wait of [-1.5, NaN, '5', null, -1000n, -Infinity, {}]) {
    assert.match((await fails(client.acquire('a', { wait }), 'QUORLOCK_INVALID')).message, /wait = /)
  }
  for (const maxHold of numbers) await fails(client.acquire('a', { maxHold }), 'QUORLOCK_INVALID')
  for (const name of ['', 'x'.repeat(1025), '}x', 5, null, undefined, {}, 'half \ud83d']) {
    assert.match((await fails(client.acquire(name), 'QUORLOCK_INVALID')).message, /name = /)
  }
  for (const options of [null, 5, 'ttl', { tll: 500 }, { renew: 1 }, { label: 5 }, { label: 'x'.repeat(257) }, { signal: {} }]) {
    await fails(client.acquire('a', options), 'QUORLOCK_INVALID')
  }
  assert.match((await fails(client.acquire('a', { ttl: '5' }), 'QUORLOCK_INVALID')).message, /ttl = "5"/)
  assert.match((await fails(client.acquire('a', { ttl: -1000n }), 'QUORLOCK_INVALID')).message, /ttl = -1000n/)
  for (const drain of [-1, '1', null, NaN]) await fails(client.close({ drain }), 'QUORLOCK_INVALID')
  for (const timeout of [-1, '1', null, NaN]) await fails(client.ping(timeout), 'QUORLOCK_INVALID')
  assert.equal(await bed.ask('monitor 0 count'), '0')
  const urls = [[], 5, null, undefined, [5], 'http://x', 'nonsense', ['redis://a', 'redis://a']]
  for (const bad of urls) assert.throws(() => new Client(bad), { code: 'QUORLOCK_INVALID' }, `${bad}`)
  for (const options of [{ ttl: 1 }, { ttl: '9' }, { drift: NaN }, { prefix: '{' }, { serverTimeout: 0 }, { wiat: 1 }, null]) {
    assert.throws(() => new Client('redis://a', options), { code: 'QUORLOCK_INVALID' }, inspect(options))
  }
  assert.equal(await (await client.acquire('a', { ttl: undefined, wait: Infinity })).release(), true)
})

test('o14_the_late_finisher_does_not_free_the_next_holder', async (t) => {
  const bed = await testbed(t)
  const [a, b, c] = [1, 2, 3].map(() => connect(t, bed.urls))
  const late = await a.acquire('job', { ttl: 800, renew: false })
  const next = await b.acquire('job', { ttl: 5_000 })
  assert.ok(next.fence > late.fence)
  const token = await bed.redis(0, 'GET', 'lock:{job}')
  const error = await fails(late.release(), 'QUORLOCK_LOST')
  assert.equal(error.lockName, 'job')
  assert.equal(await bed.redis(0, 'GET', 'lock:{job}'), token)
  await fails(c.acquire('job', { wait: 0 }), 'QUORLOCK_BUSY')
  assert.equal(next.held, true)
})

for (const servers of [1, 5]) {
  test(`o16_one_deadline_in_time, ${servers} servers`, async (t) => {
    const bed = await testbed(t, servers)
    const [a, b, c] = [1, 2, 3].map(() => connect(t, bed.urls))
    const held = await a.acquire('job')
    const start = performance.now()
    const patient = timed(() => b.acquire('job', { wait: 3_000 }))
    const impatient = timed(() => c.acquire('job', { wait: 1_000 }))
    const { took, error } = await impatient
    assert.equal(error.code, 'QUORLOCK_BUSY')
    within(took, 999, 1_400)
    within(error.elapsed, took * 0.8, took)
    assert.ok(error.attempts >= 1)
    await sleep(start + 1_500 - performance.now())
    await held.release()
    const winner = await patient
    within(winner.took, 1_500, 2_900)
    assert.equal(winner.value.held, true)
  })
}

test('o17_validity_counts_from_the_winning_attempt', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  const held = await a.acquire('job')
  const waiting = b.acquire('job', { ttl: 1_000, wait: 5_000, renew: false })
  await sleep(1_200)
  await held.release()
  within((await waiting).remaining, 700, 988)
})

test('o18_no_traffic_after_the_deadline', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  const held = await a.acquire('job', { renew: false })
  await fails(b.acquire('job', { wait: 300 }), 'QUORLOCK_BUSY')
  await held.release()
  await bed.ask('monitor 0 start')
  await sleep(1_000)
  assert.deepEqual(await bed.sent(0, 'job'), [])
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
})

test('o19_the_block_never_runs_without_the_lock', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  await a.acquire('job')
  const { took, error } = await timed(() => b.withLock('job', { ttl: 1_000, wait: 200 }, () => assert.fail('it ran')))
  assert.equal(error.code, 'QUORLOCK_BUSY')
  within(took, 199, 1_000)
})

test('o32_an_emptied_script_cache_is_no_error', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  for (let round = 0; round < 20; round++) {
    const lease = await client.acquire('job')
    await bed.redis(0, 'SCRIPT', 'FLUSH')
    await lease.extend()
    await bed.redis(0, 'SCRIPT', 'FLUSH')
    assert.equal(await lease.release(), true)
    await bed.redis(0, 'SCRIPT', 'FLUSH')
  }
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
})

for (const kind of ['tcp', 'unix']) {
  test(`o34_the_database_is_kept_after_a_reconnect, ${kind}`, async (t) => {
    const bed = await testbed(t, 0)
    const url = kind === 'tcp' ? `${await bed.ask('server')}/5` : `${await bed.ask('unix')}?db=5`
    const client = connect(t, url)
    await client.acquire('one')
    assert.ok(Number(await bed.ask('kill-clients 0')) >= 1)
    await client.acquire('two', { wait: 5_000 })
    assert.match(await bed.redis(0, 'INFO', 'keyspace'), /db5:/)
    assert.doesNotMatch(await bed.redis(0, 'INFO', 'keyspace'), /db0:/)
  })
}

test('o35_a_front_that_knows_neither_HELLO_nor_CLIENT', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, await bed.ask('fake 0'))
  const lease = await client.acquire('job', { wait: 5_000 })
  assert.equal(await lease.release(), true)
})

test('o41_released_elsewhere_and_twice', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const lease = await client.acquire('job')
  const released = await new Promise((resolve) => setImmediate(() => resolve(lease.release())))
  assert.equal(released, true)
  assert.equal(await lease.release(), false)
  const both = await client.acquire('job')
  assert.deepEqual((await Promise.all([both.release(), both.release()])).sort(), [false, true])
})

test('o56_a_lock_named_as_a_data_key', async (t) => {
  const bed = await testbed(t)
  await bed.redis(0, 'HSET', 'account:42', 'a', '1')
  await bed.redis(0, 'HSET', 'lock:{cart}', 'a', '1')
  const client = connect(t, bed.urls)
  assert.equal(await (await client.acquire('account:42')).release(), true)
  const { took, error } = await timed(() => client.acquire('cart', { wait: 5_000 }))
  assert.equal(error.code, 'QUORLOCK_REFUSED')
  within(took, 0, 1_000)
  assert.match(error.message, /lock:\{cart\}/)
  assert.match(error.message, /hash/)
  assert.equal(await bed.redis(0, 'HGET', 'lock:{cart}', 'a'), '1')
})

test('o57_the_same_name_is_the_same_key', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const lease = await client.acquire('orders/42 ü')
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{orders/42 ü}'), 1)
  await lease.release()
  await bed.redis(0, 'SET', 'lock:{orders/42 ü}', 'somebody', 'NX', 'PX', '60000')
  assert.equal(await client.tryAcquire('orders/42 ü'), null)
  const own = connect(t, bed.urls, { prefix: 'shop:' })
  await own.acquire('orders/42 ü')
  assert.equal(await bed.redis(0, 'EXISTS', 'shop:{orders/42 ü}'), 1)
})

test('o73_a_fence_is_exact_to_the_last_one', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await bed.redis(0, 'SET', 'lock:{job}:fence', '9007199254740990')
  const lease = await client.acquire('job')
  assert.equal(lease.fence, 9007199254740991)
  await lease.release()
  const error = await fails(client.acquire('job'), 'QUORLOCK_REFUSED')
  assert.match(error.message, /fence exhausted/)
  assert.match(error.message, /lock:\{job\}/)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
})

test('an error is an Error, with a stack that leads to its caller', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await client.acquire('job')
  async function callerOfQuorlock() {
    await client.acquire('job', { wait: 0, label: 'me' })
  }
  const error = await fails(callerOfQuorlock(), 'QUORLOCK_BUSY')
  assert.ok(error instanceof Error && error instanceof QuorlockError)
  assert.match(error.stack, /callerOfQuorlock/)
  assert.equal(error.name, 'QuorlockError')
  assert.match(`${error}`, /^QuorlockError: /)
  const json = JSON.parse(JSON.stringify(error))
  assert.deepEqual([json.code, json.kind, json.lockName, json.attempts], ['QUORLOCK_BUSY', 'busy', 'job', 1])
  assert.equal(json.message, error.message)
})

test('o71_contention_is_counted_without_a_command', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  assert.equal(a.stats().acquired, 0)
  const lease = await a.acquire('job')
  assert.equal(await b.tryAcquire('job'), null)
  assert.equal(a.stats().holding, 1)
  await lease.release()
  const stats = a.stats()
  assert.deepEqual([stats.acquired, stats.released, stats.holding, stats.waiting, b.stats().busy], [1, 1, 0, 0, 1])
  assert.deepEqual(stats.lost, { expired: 0, taken: 0, max_hold: 0, closed: 0 })
  assert.equal(stats.wait.counts.length, stats.wait.bounds.length + 1)
  assert.equal(stats.wait.count, 1)
  assert.equal(stats.hold.counts.reduce((sum, n) => sum + n), 1)
  assert.ok(stats.servers[0].calls >= 2 && bed.urls[0].includes(stats.servers[0].address))
})

test('a holder is seen', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  assert.deepEqual(await b.inspect('job'), { held: false, remaining: 0, holder: null, waiters: 0, fence: null })
  const lease = await a.acquire('job', { ttl: 20_000, label: 'nightly' })
  const info = await b.inspect('job')
  within(info.remaining, 10_000, 20_000)
  assert.deepEqual([info.held, info.fence, info.waiters], [true, lease.fence, 0])
  const { pid, language, label, version: its, host, since } = info.holder
  assert.deepEqual([pid, language, label, its], [process.pid, 'node', 'nightly', version])
  assert.ok(host.length > 0 && since instanceof Date)
  assert.ok((await b.breakLock('job')) > lease.fence)
  await fails(lease.confirm(), 'QUORLOCK_LOST')
})
