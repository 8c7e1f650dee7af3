'use strict'
// Several independent servers, some of them down, hung, or of another opinion.
const assert = require('node:assert/strict')
const test = require('node:test')
const { inspect } = require('node:util')
const { Client } = require('../index.js')
const { connect, fails, sleep, testbed, timed, until, within } = require('./helpers.js')

test('o20_majority_for_every_number_of_servers', async (t) => {
  const bed = await testbed(t, 7)
  for (let n = 1; n <= 7; n++) {
    const spare = Math.ceil(n / 2) - 1
    assert.equal(spare, [0, 0, 1, 1, 2, 2, 3][n - 1])
    for (let i = 0; i < spare; i++) await bed.ask(`kill ${i}`)
    const client = connect(t, bed.urls.slice(0, n))
    const lease = await client.acquire(`job${n}`, { wait: 0 })
    await lease.release()
    await bed.ask(`kill ${spare}`)
    const { took, error } = await timed(() => client.acquire(`job${n}`, { wait: 0 }))
    assert.equal(error.code, 'QUORLOCK_UNAVAILABLE')
    within(took, 0, 1_000)
    assert.equal(error.servers.length, n)
    for (let i = spare + 1; i < n; i++) {
      await until(async () => (await bed.redis(i, 'EXISTS', `lock:{job${n}}`)) === 0)
    }
    for (let i = 0; i <= spare; i++) await bed.ask(`start ${i}`)
  }
  assert.throws(() => new Client([]), { code: 'QUORLOCK_INVALID' })
  assert.throws(() => new Client([bed.urls[0], bed.urls[0], bed.urls[1]]), { code: 'QUORLOCK_INVALID' })
})

test('o26_hung_servers_cost_one_timeout_and_not_the_sum', async (t) => {
  const bed = await testbed(t, 5)
  const client = connect(t, bed.urls, { serverTimeout: 200 })
  await (await client.acquire('warm')).release()
  await bed.ask('freeze 0')
  await bed.ask('freeze 1')
  const took = []
  for (let i = 0; i < 50; i++) {
    const acquire = await timed(() => client.acquire('job', { wait: 0 }))
    const lease = acquire.value
    assert.ok(lease, `${acquire.error}`)
    took.push(acquire.took, (await timed(() => lease.extend())).took, (await timed(() => lease.release())).took)
  }
  took.sort((a, b) => a - b)
  within(took[Math.floor(took.length / 2)], 0, 100)
  within(took.at(-1), 0, 600)
  await bed.ask('freeze 2')
  const { took: last, error } = await timed(() => client.acquire('job', { wait: 0 }))
  assert.equal(error.code, 'QUORLOCK_UNAVAILABLE')
  within(last, 0, 600)
})

test('o27_late_write_is_undone', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls, { serverTimeout: 200 })
  await (await client.acquire('warm')).release()
  await bed.ask('freeze 0')
  const { took, error } = await timed(() => client.acquire('job', { ttl: 60_000, wait: 0 }))
  assert.equal(error.code, 'QUORLOCK_UNAVAILABLE')
  within(took, 195, 1_000)
  await bed.ask('thaw 0')
  await until(async () => (await bed.redis(0, 'EXISTS', 'lock:{job}')) === 0)
  assert.equal(await (await client.acquire('job', { wait: 5_000 })).release(), true)

  await bed.ask('kill 0')
  await fails(client.acquire('down', { ttl: 60_000, wait: 0 }), 'QUORLOCK_UNAVAILABLE')
  await bed.ask('start 0')
  await client.acquire('up', { wait: 5_000 }) // so it is connected again
  await sleep(200)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{down}'), 0)
})

test('o62_each_server_says_why', async (t) => {
  const bed = await testbed(t, 3)
  await bed.ask('kill 0')
  await bed.redis(1, 'CONFIG', 'SET', 'requirepass', 'right')
  await bed.redis(2, 'SET', 'lock:{job}', 'somebody-elses-token', 'PX', '60000')
  const urls = [bed.urls[0], bed.urls[1].replace('//', '//user:wrong-password@'), bed.urls[2]]
  const { took, error } = await timed(() => connect(t, urls).acquire('job', { wait: 300 }))
  assert.match(error.code, /^QUORLOCK_(UNAVAILABLE|REFUSED)$/)
  assert.equal(error.servers.length, 3)
  assert.deepEqual(error.servers.map(({ address }) => `redis://${address}`), bed.urls)
  assert.equal(new Set(error.servers.map(({ cause }) => cause)).size, 3)
  assert.ok(error.attempts >= 1)
  within(error.elapsed, took * 0.5, took)
  for (const shown of [`${error}`, error.stack, inspect(error), JSON.stringify(error)]) {
    assert.ok(shown.includes(error.servers[0].address))
    for (const secret of ['wrong-password', 'somebody-elses-token']) assert.ok(!shown.includes(secret), shown)
  }
})
