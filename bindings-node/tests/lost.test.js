'use strict'
// The holder knows: loss, renewal, and what the body of withLock learns of it.
const assert = require('node:assert/strict')
const { AsyncLocalStorage } = require('node:async_hooks')
const { once } = require('node:events')
const test = require('node:test')
const { Child, connect, fails, sleep, testbed, timed, until, within } = require('./helpers.js')

test('o07_the_loss_does_not_eat_the_result', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const options = { ttl: 800, renew: false }
  let ended
  const body = async (lease, end) => {
    await once(lease.signal, 'abort')
    ended = performance.now()
    return end()
  }
  const loss = await fails(client.withLock('job', options, (lease) => body(lease, () => 42)), 'QUORLOCK_LOST')
  within(performance.now() - ended, 0, 500)
  assert.equal(loss.result, 42)
  assert.ok(!JSON.stringify(loss).includes('42'), 'a result may be a secret')

  const mine = new TypeError('mine')
  const throwing = client.withLock('job', options, (lease) => body(lease, () => { throw mine }))
  assert.equal(await throwing.catch((error) => error), mine)
  within(performance.now() - ended, 0, 500)
  assert.equal(mine.cause.code, 'QUORLOCK_LOST')

  const cause = new Error('deeper')
  const caused = new Error('mine', { cause })
  await client.withLock('job', options, (lease) => body(lease, () => { throw caused })).catch(() => {})
  assert.equal(caused.cause, cause)
  for (const odd of ['text', undefined, Object.freeze(new Error('frozen'))]) {
    const thrown = client.withLock('job', options, (lease) => body(lease, () => { throw odd }))
    assert.equal(await thrown.then(() => assert.fail(), (error) => error), odd)
  }
  // What a body does that passes the signal on: the loss itself comes out.
  const passed = client.withLock('job', options, (lease) => body(lease, () => lease.signal.throwIfAborted()))
  assert.ok(!('cause' in (await fails(passed, 'QUORLOCK_LOST'))))
})

test('o08_the_holder_notices_without_a_packet', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls).acquire('job', { ttl: 1_000 })
  await sleep(500)
  await bed.ask('freeze 0')
  const frozen = performance.now()
  await once(lease.signal, 'abort')
  within(performance.now() - frozen, 300, 1_500)
  assert.deepEqual([lease.remaining, lease.held, lease.lostReason], [0, false, 'expired'])
  assert.throws(() => lease.ensureHeld(), { code: 'QUORLOCK_LOST' })
  assert.equal(lease.signal.reason.code, 'QUORLOCK_LOST')
  assert.equal(lease.signal.reason.lockName, 'job')
  await fails(lease.extend(), 'QUORLOCK_LOST')
})

test('o09_max_hold_ends_the_office_of_a_stuck_holder', async (t) => {
  const bed = await testbed(t)
  const [a, b] = [connect(t, bed.urls, { serverTimeout: 150 }), connect(t, bed.urls)]
  const start = performance.now()
  const stuck = await a.acquire('job', { ttl: 300, maxHold: 1_000 })
  const lost = once(stuck.signal, 'abort').then(() => performance.now() - start)
  const next = await timed(() => b.acquire('job', { wait: 5_000 }))
  assert.ok(next.value.held)
  within(performance.now() - start, 990, 2_500)
  within(await lost, 900, 2_000)
  assert.equal(stuck.lostReason, 'max_hold')
})

test('o10_nothing_is_renewed_after_the_release', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  let losses = 0
  const cycles = async (name) => {
    for (let i = 0; i < 100; i++) {
      const lease = await client.acquire(name, { ttl: 800 })
      lease.signal.addEventListener('abort', () => losses++)
      await sleep(Math.random() * 5)
      assert.equal(await lease.release(), true)
    }
  }
  await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((i) => cycles(`job${i}`)))
  await bed.ask('monitor 0 start')
  await sleep(1_000)
  assert.deepEqual(await bed.sent(0, 'job'), [])
  assert.deepEqual((await bed.redis(0, 'KEYS', 'lock:*')).filter((key) => key.endsWith('}')), [])
  assert.equal(losses, 0)
})

test('o11_o54_a_holder_that_was_stopped_past_its_ttl', async (t) => {
  const bed = await testbed(t)
  const holder = async (connect) => {
    const lease = await connect({ serverTimeout: 150 }).acquire('job', { ttl: 300 })
    lease.signal.addEventListener('abort', () => console.log('lost', Date.now()))
    // A turn of the loop that takes long is the stop; the first statement after it must see the truth.
    let last = Date.now()
    const timer = setInterval(() => {
      const now = Date.now()
      if (now - last > 400) {
        console.log('woke', now, lease.remaining, lease.held)
        clearInterval(timer)
      }
      last = now
    }, 1)
    console.log('held')
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  }
  const child = new Child(t, bed.urls[0], holder)
  const other = connect(t, bed.urls)
  await child.line('held')
  child.process.kill('SIGSTOP')
  const next = await other.acquire('job', { wait: 5_000 })
  await sleep(600)
  await next.release()
  await bed.ask('monitor 0 start')
  child.process.kill('SIGCONT')
  const [, woke, remaining, held] = (await child.line('woke')).split(' ')
  assert.deepEqual([remaining, held], ['0', 'false'])
  const [, lost] = (await child.line('lost')).split(' ')
  within(lost - woke, -500, 500)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  const sent = JSON.parse(await bed.ask('monitor 0 stop'))
  assert.deepEqual(sent.filter(([by, verb]) => by === 'script' && /^(SET|PEXPIRE)$/i.test(verb)), [])
})

test('o13_a_broken_connection_does_not_end_the_lock', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls).acquire('job', { ttl: 1_000 })
  const start = performance.now()
  for (const at of [250, 600, 1_400]) {
    await sleep(start + at - performance.now())
    assert.ok(Number(await bed.ask('kill-clients 0')) >= 1)
  }
  await sleep(start + 3_000 - performance.now())
  assert.equal(lease.signal.aborted, false)
  assert.equal(await lease.release(), true)
})

test('o74_a_blocked_event_loop_does_not_stop_renewal', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls, { serverTimeout: 150 }).acquire('job', { ttl: 300 })
  const { signal } = lease
  const rival = new Child(t, bed.urls[0], async (connect) => {
    const client = connect()
    console.log('go')
    for (;;) if (await client.tryAcquire('job')) console.log('stolen')
  })
  await rival.line('go')
  const end = performance.now() + 3_000
  while (performance.now() < end);
  assert.equal(lease.held, true)
  assert.ok(lease.remaining > 0)
  await lease.confirm()
  assert.equal(signal.aborted, false)
  assert.ok(!rival.lines.includes('stolen'))
})

test('o74_the_first_statement_after_a_block_sees_the_loss', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls, { serverTimeout: 150 }).acquire('job', { ttl: 300 })
  const { signal } = lease
  await bed.ask('freeze 0')
  const end = performance.now() + 600
  while (performance.now() < end);
  assert.equal(lease.remaining, 0)
  assert.equal(signal.aborted, false, 'the loop has not turned')
  assert.throws(() => lease.ensureHeld(), { code: 'QUORLOCK_LOST' })
  await once(signal, 'abort')
})

test('the signal of a lease that was lost before somebody asked for it', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls).acquire('job', { ttl: 800, renew: false })
  await until(() => !lease.held)
  if (!lease.signal.aborted) await once(lease.signal, 'abort')
  assert.equal(lease.signal.reason.code, 'QUORLOCK_LOST')
  assert.equal(lease.signal, lease.signal)
})

test('a loss is told in the context of the acquire', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const storage = new AsyncLocalStorage()
  const lease = await storage.run('request 7', () => client.acquire('job', { ttl: 800, renew: false }))
  const seen = new Promise((resolve) => lease.signal.addEventListener('abort', () => resolve(storage.getStore())))
  assert.equal(await seen, 'request 7')
})
