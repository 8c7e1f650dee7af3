'use strict'
// Locks shared with people who use something else: npm redlock (the real one), and plain SET NX PX.
const assert = require('node:assert/strict')
const test = require('node:test')
const Redis = require('ioredis')
const { default: Redlock } = require('redlock5')
const { connect, testbed } = require('./helpers.js')

test('with exactKeys npm redlock excludes us, and we it', async (t) => {
  const bed = await testbed(t)
  const redis = new Redis(bed.urls[0])
  t.after(() => redis.disconnect())
  const redlock = new Redlock([redis], { retryCount: 0 })
  const client = connect(t, bed.urls, { exactKeys: true })

  const theirs = await redlock.acquire(['orders:42'], 10_000)
  assert.equal(await client.tryAcquire('orders:42'), null)
  await theirs.release()

  const ours = await client.acquire('orders:42', { wait: 0 })
  await assert.rejects(redlock.acquire(['orders:42'], 10_000))
  assert.equal(await ours.release(), true)

  const again = await redlock.acquire(['orders:42'], 10_000)
  const waiting = client.acquire('orders:42', { wait: 10_000 })
  await again.release()
  const next = await waiting
  assert.ok(next.fence > ours.fence)
  await assert.rejects(redlock.acquire(['orders:42'], 10_000))
})

test('a key set by SET NX PX excludes us, and our key excludes it', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const set = () => bed.redis(0, 'SET', 'lock:{orders/42}', 'somebody', 'NX', 'PX', '60000')
  assert.equal(await set(), 'OK')
  assert.equal(await client.tryAcquire('orders/42'), null)
  await bed.redis(0, 'DEL', 'lock:{orders/42}')
  const lease = await client.acquire('orders/42', { wait: 0 })
  assert.equal(await set(), null)
  await lease.release()
  assert.equal(await set(), 'OK')
})
