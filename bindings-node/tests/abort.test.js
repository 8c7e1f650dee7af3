'use strict'
// AbortSignal in, and what happens to an attempt that nobody waits for.
const assert = require('node:assert/strict')
const { getEventListeners } = require('node:events')
const test = require('node:test')
const { Child, connect, fails, sleep, testbed, timed, until, within } = require('./helpers.js')

const isAbort = { name: 'AbortError', code: 'ABORT_ERR' }

test('o36_aborted_attempts_leave_nothing', async (t) => {
  const bed = await testbed(t)
  const slow = await bed.ask('proxy 0')
  await bed.ask('proxy-set 0 delay=100')
  const client = connect(t, slow, { serverTimeout: 1_000 })
  await (await client.acquire('warm')).release()
  const attempt = async (i) => {
    const controller = new AbortController()
    const outcome = client.acquire(`job${i}`, { ttl: 30_000, signal: controller.signal }).then(
      async (lease) => assert.equal(await lease.release(), true),
      (error) => {
        assert.deepEqual({ name: error.name, code: error.code }, isAbort)
        return performance.now()
      },
    )
    await sleep(i * 3)
    const aborted = performance.now()
    controller.abort()
    const rejected = await outcome
    if (rejected !== undefined) within(rejected - aborted, 0, 300)
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    return rejected !== undefined
  }
  const ends = await Promise.all(Array.from({ length: 100 }, (_, i) => attempt(i)))
  assert.ok(ends.includes(true))
  await until(async () => (await bed.redis(0, 'KEYS', 'lock:*')).every((key) => !key.endsWith('}')))
  await sleep(500) // no late write either
  assert.ok((await bed.redis(0, 'KEYS', 'lock:*')).every((key) => !key.endsWith('}')))
  const after = await Promise.all(Array.from({ length: 100 }, (_, i) => client.acquire(`job${i}`)))
  assert.ok(after.every((lease, i) => lease.name === `job${i}` && lease.fence > 0))
  assert.ok((await Promise.all(after.map((lease) => lease.release()))).every((released) => released === true))
})

test('o36_a_grant_that_was_on_its_way_at_the_abort_is_undone', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await (await client.acquire('warm')).release()
  const controller = new AbortController()
  const attempt = client.acquire('job', { ttl: 60_000, signal: controller.signal })
  const end = performance.now() + 300
  while (performance.now() < end); // the grant arrives, and the loop does not turn to take it
  controller.abort()
  await assert.rejects(attempt, isAbort)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}:fence'), 1, 'it was granted')
  await until(async () => (await bed.redis(0, 'EXISTS', 'lock:{job}')) === 0)
})

test('o37_a_wait_can_be_ended', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls), connect(t, bed.urls)]
  await a.acquire('job')
  const controller = new AbortController()
  const reason = new Error('shutdown')
  const waiting = timed(() => b.acquire('job', { signal: controller.signal }))
  await sleep(300)
  assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
  controller.abort(reason)
  const { took, error } = await waiting
  assert.deepEqual({ name: error.name, code: error.code }, isAbort)
  assert.equal(error.cause, reason)
  assert.ok(error instanceof Error)
  within(took, 299, 1_000)
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)

  const timeout = await b.acquire('job', { signal: AbortSignal.timeout(50) }).catch((error) => error)
  assert.deepEqual([timeout.name, timeout.cause.name], ['AbortError', 'TimeoutError'])
  await assert.rejects(b.withLock('job', { signal: AbortSignal.timeout(50) }, () => assert.fail()), isAbort)

  const closing = fails(b.acquire('job'), 'QUORLOCK_CLOSED')
  await sleep(100)
  const { took: closed } = await timed(() => Promise.all([b.close(), closing]))
  within(closed, 0, 1_000)
})

test('o37_a_signal_that_is_aborted_already_sends_nothing', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  await bed.ask('monitor 0 start')
  const signal = AbortSignal.abort('why')
  for (const attempt of [client.acquire('job', { signal }), client.tryAcquire('job', { signal })]) {
    const error = await attempt.then(() => assert.fail(), (error) => error)
    assert.deepEqual([error.name, error.cause], ['AbortError', 'why'])
  }
  await assert.rejects(client.withLock('job', { signal }, () => assert.fail()), isAbort)
  assert.equal(await bed.ask('monitor 0 count'), '0')
})

test('o37_the_process_exits_when_its_waits_have_ended', async (t) => {
  const bed = await testbed(t)
  await connect(t, bed.urls).acquire('job')
  const child = new Child(t, bed.urls[0], async (connect) => {
    const client = connect()
    const waits = [client.acquire('job'), client.acquire('job', { signal: AbortSignal.timeout(200) })]
    setTimeout(() => client.close(), 300)
    const ends = await Promise.allSettled(waits)
    console.log('ended', ...ends.map(({ reason }) => reason.code))
  })
  assert.equal(await child.line('ended'), 'ended QUORLOCK_CLOSED ABORT_ERR')
  const ended = performance.now()
  within(Math.max(0, (await child.end()).at - ended), 0, 1_000) // its end may be noted first
})

test('the signal of an acquire has nothing to do with its lease', async (t) => {
  const bed = await testbed(t)
  const controller = new AbortController()
  const lease = await connect(t, bed.urls).acquire('job', { signal: controller.signal })
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  controller.abort()
  await lease.confirm()
  assert.equal(lease.signal.aborted, false)
})

test('o38_the_release_is_not_aborted_with_the_body', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const signal = AbortSignal.timeout(200)
  const body = () => sleep(60_000, undefined, { signal })
  await assert.rejects(client.withLock('job', { ttl: 30_000, signal }, body), isAbort)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  // What `await using` does at the end of its block.
  const lease = await client.acquire('job', { ttl: 30_000 })
  await assert.rejects(body().finally(() => lease[Symbol.asyncDispose]()), isAbort)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
})
