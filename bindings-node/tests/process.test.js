'use strict'
// The ends of things: of the process, of worker threads, of leases that were forgotten.
const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const diagnostics = require('node:diagnostics_channel')
const { once } = require('node:events')
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { dirname, join } = require('node:path')
const test = require('node:test')
const { Worker } = require('node:worker_threads')
const { Child, connect, package_, sleep, testbed, until, within } = require('./helpers.js')

const ends = {
  'a release': async (connect) => {
    const client = connect()
    await (await client.acquire('mine')).release()
    console.log('end')
  },
  'an acquire': async (connect) => {
    await connect().acquire('mine')
    console.log('end')
  },
  'a lease with a signal that has listeners': async (connect) => {
    const lease = await connect().acquire('mine')
    lease.signal.addEventListener('abort', () => console.log('lost'))
    console.log('end')
  },
  'Busy': async (connect) => {
    const client = connect()
    await client.acquire('held', { wait: 0 }).catch((error) => console.log(error.code))
    await client.acquire('held', { wait: 100 }).catch((error) => console.log(error.code))
    console.log('end')
  },
  'a waited acquire': async (connect) => {
    const [a, b] = [connect(), connect()]
    const lease = await a.acquire('mine')
    setTimeout(() => lease.release(), 100)
    await b.acquire('mine')
    console.log('end')
  },
  'Lost': async (connect) => {
    const lease = await connect().acquire('mine', { ttl: 800, renew: false })
    const timer = setTimeout(() => {}, 60_000) // a signal keeps no process alive
    lease.signal.addEventListener('abort', () => {
      clearTimeout(timer)
      console.log('end')
    })
  },
  'an import alone': async () => console.log('end'),
}
for (const [what, script] of Object.entries(ends)) {
  test(`o42_the_process_ends_after ${what}`, async (t) => {
    const bed = await testbed(t)
    await connect(t, bed.urls).acquire('held')
    const child = new Child(t, bed.urls[0], script)
    await child.line('end')
    const ended = performance.now()
    within((await child.end()).at - ended, 0, 1_000)
    assert.equal(await bed.redis(0, 'EXISTS', 'lock:{mine}'), 0, 'what it held is released')
  })
}

test('o42_the_process_ends_under the test runner', async (t) => {
  const [bed, file] = [await testbed(t), join(mkdtempSync(join(tmpdir(), 'quorlock-')), 'user.test.js')]
  t.after(() => rmSync(dirname(file), { recursive: true }))
  writeFileSync(
    file,
    `const { Client } = require(${JSON.stringify(package_)})
    require('node:test')('it leaves a lease and a client behind', async () => {
      await new Client('${bed.urls[0]}', { serverTimeout: 400 }).acquire('mine')
    })`,
  )
  const { NODE_TEST_CONTEXT, ...env } = process.env // which would make it a part of this run
  const { status, stdout } = spawnSync(process.execPath, ['--test', file], { env, encoding: 'utf8', timeout: 20_000 })
  assert.equal(status, 0, stdout)
  assert.match(stdout, /pass 1/)
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{mine}'), 0)
})

test('a call that somebody waits for keeps the process alive', async (t) => {
  const bed = await testbed(t)
  const lease = await connect(t, bed.urls).acquire('job')
  const child = new Child(t, bed.urls[0], async (connect) => {
    console.log('waiting')
    await connect().acquire('job')
    console.log('acquired')
  })
  await child.line('waiting')
  await sleep(500)
  await lease.release()
  await child.line('acquired')
  await child.end()
})

for (const [what, code, end] of [
  ['process.exit()', 3, () => process.exit(3)],
  ['an uncaught error', 1, () => { throw new Error('uncaught') }],
]) {
  test(`what is held is released after ${what}`, async (t) => {
    const bed = await testbed(t)
    const script = `async (connect) => {
      const lease = await connect().acquire('job')
      console.log('held')
      setTimeout(${end}, 50)
    }`
    const child = new Child(t, bed.urls[0], script)
    await child.line('held')
    await child.end(code)
    assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  })
}

test('a lease that was forgotten is not released early, and no longer renewed', async (t) => {
  const bed = await testbed(t)
  const forgetful = async (connect) => {
    require('node:diagnostics_channel').subscribe('quorlock:warn', (event) => console.log('warn', JSON.stringify(event)))
    const client = connect()
    const forget = async () => (await client.acquire('job', { ttl: 1_500 })).fence
    await forget()
    console.log('held')
    process.stdin.resume() // until the test ends it
    setInterval(() => global.gc(), 20)
  }
  const child = new Child(t, bed.urls[0], forgetful, { flags: ['--expose-gc'] })
  await child.line('held')
  const token = await bed.redis(0, 'GET', 'lock:{job}')
  const event = JSON.parse((await child.line('warn')).slice(5))
  assert.deepEqual([event.level, event.name], ['warn', 'job'])
  assert.ok(!JSON.stringify(event).includes(token))
  const left = await bed.redis(0, 'PTTL', 'lock:{job}')
  within(left, 1, 1_500)
  assert.equal(await bed.redis(0, 'GET', 'lock:{job}'), token)
  await until(async () => (await bed.redis(0, 'EXISTS', 'lock:{job}')) === 0, left + 1_000)
})

test('the signal of a lease that was forgotten aborts', async (t) => {
  const bed = await testbed(t)
  const forgetful = async (connect) => {
    const client = connect()
    const forget = async () => {
      const { signal } = await client.acquire('job', { ttl: 60_000 })
      signal.addEventListener('abort', () => console.log('lost', signal.reason.code, signal.reason.message))
    }
    await forget()
    setInterval(() => global.gc(), 20)
  }
  const child = new Child(t, bed.urls[0], forgetful, { flags: ['--expose-gc'] })
  assert.match(await child.line('lost'), /^lost QUORLOCK_LOST "job": .*forgotten/)
  within(await bed.redis(0, 'PTTL', 'lock:{job}'), 1, 60_000)
})

test('events go to diagnostics_channel', async (t) => {
  const bed = await testbed(t)
  const seen = []
  const see = (event, channel) => seen.push([channel, event])
  diagnostics.subscribe('quorlock:warn', see)
  t.after(() => diagnostics.unsubscribe('quorlock:warn', see))
  const lease = await connect(t, bed.urls).acquire('job', { ttl: 800, renew: false })
  const [channel, event] = await until(() => seen.find(([, event]) => event.name === 'job'))
  assert.deepEqual([channel, event.level, typeof event.message], ['quorlock:warn', 'warn', 'string'])
  assert.equal(lease.held, false)
})

const worker = `
  const { Client } = require(${JSON.stringify(package_)})
  const { parentPort, workerData } = require('node:worker_threads')
  const run = async () => {
    const client = new Client(workerData.url)
    const lease = await client.acquire(workerData.name, { ttl: workerData.ttl ?? 1_000 })
    parentPort.postMessage('held')
    if (workerData.leave) return // without a release
    if (workerData.hold) await new Promise((resolve) => setTimeout(resolve, 60_000))
    await lease.release()
  }
  run()
`

test('o44_worker_threads_load_lock_and_exit', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  let running = 0
  const one = async (i) => {
    running++
    const thread = new Worker(worker, { eval: true, workerData: { url: bed.urls[0], name: `job${i % 4}` } })
    assert.deepEqual(await once(thread, 'exit'), [0])
    running--
  }
  for (let i = 0; i < 50; i += 5) await Promise.all([0, 1, 2, 3, 4].map((k) => one(i + k)))
  assert.equal(running, 0)
  for (let i = 0; i < 4; i++) assert.equal(await (await client.acquire(`job${i}`, { wait: 5_000 })).release(), true)
})

test('the end of a worker thread releases what it holds, and nothing else', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  const ours = await client.acquire('ours')
  const thread = new Worker(worker, { eval: true, workerData: { url: bed.urls[0], name: 'job', ttl: 60_000, leave: true } })
  assert.deepEqual(await once(thread, 'exit'), [0])
  assert.equal(await bed.redis(0, 'EXISTS', 'lock:{job}'), 0)
  await ours.confirm()
  assert.ok(await client.tryAcquire('job'))
})

test('o44_worker_threads_terminated_while_they_hold_and_wait', async (t) => {
  const bed = await testbed(t)
  const client = connect(t, bed.urls)
  for (let round = 0; round < 5; round++) {
    const [name, url] = [`job${round}`, bed.urls[0]]
    const holder = new Worker(worker, { eval: true, workerData: { url, name, hold: true } })
    await once(holder, 'message')
    const waiter = new Worker(worker, { eval: true, workerData: { url, name } })
    await once(waiter, 'online')
    await sleep(50 * round)
    await waiter.terminate()
    await holder.terminate()
    const lease = await client.acquire(name, { wait: 5_000 }) // within its TTL: nobody renews it
    await sleep(100)
    assert.equal(await lease.release(), true)
  }
})

test('a grant that a terminated worker thread never took is undone', async (t) => {
  const bed = await testbed(t)
  const script = `
    const { Client } = require(${JSON.stringify(package_)})
    new Client('${bed.urls[0]}', { serverTimeout: 400 }).acquire('job', { ttl: 60_000 })
    for (;;); // the grant arrives, and the loop never turns to take it
  `
  const thread = new Worker(script, { eval: true })
  await until(async () => (await bed.redis(0, 'EXISTS', 'lock:{job}')) === 1)
  await sleep(200) // so that it has arrived
  await thread.terminate()
  await until(async () => (await bed.redis(0, 'EXISTS', 'lock:{job}')) === 0)
})
