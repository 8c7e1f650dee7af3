'use strict'
// Runs every scenario of ../../tests/conformance (the format: its README.md).
const assert = require('node:assert/strict')
const { readdirSync, readFileSync } = require('node:fs')
const { join } = require('node:path')
const test = require('node:test')
const { inspect } = require('node:util')
const { Client } = require('../index.js')
const { Testbed, sleep } = require('./helpers.js')

const folder = join(__dirname, '..', '..', 'tests', 'conformance')
const onBed = new Set('servers freeze thaw kill start restart cmd flush kill-clients clients monitor'.split(' '))
const options = {
  ttl: ['ttl', Number],
  server_timeout: ['serverTimeout', Number],
  claim_window: ['claimWindow', Number],
  wait: ['wait', (value) => (value === 'forever' ? Infinity : Number(value))],
  max_hold: ['maxHold', Number],
  renew: ['renew', (value) => value === 'on'],
  drift: ['drift', Number],
  prefix: ['prefix', String],
  label: ['label', String],
  exact_keys: ['exactKeys', (value) => value === 'on'],
  timeout: ['timeout', Number],
  drain: ['drain', Number],
}

function words(text) {
  const found = text.match(/(?:"(?:[^"\\]|\\.)*"(?:\*\d+)?|[^\s"])+/g) ?? []
  return found.map((word) =>
    word.replace(/"((?:[^"\\]|\\.)*)"(?:\*(\d+))?/g, (_, inside, times = 1) => inside.replace(/\\(.)/g, '$1').repeat(times)),
  )
}

function pairs(list) {
  return list.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)])
}

function given(list) {
  return Object.fromEntries(pairs(list).map(([name, value]) => [options[name][0], options[name][1](value)]))
}

const inRange = (number, range) => {
  const [low, high] = range.split('..').map(Number)
  return number >= low && number <= high
}

class Scenario {
  bed = new Testbed()
  variables = {}
  clients = {}
  leases = {}
  replaced = []
  jobs = {}

  async end() {
    await Promise.all(Object.values(this.clients).map((client) => client.close()))
    await this.bed.end()
  }

  async line(line) {
    const [command, expectation] = line.includes(' -> ') ? line.split(/\s+->\s+(.*)/s) : [line]
    const [first, ...rest] = words(command)
    switch (first) {
      case '&':
        this.jobs[rest[0]] = { done: false }
        this.jobs[rest[0]].result = this.step(command.trim().split(/\s+/).slice(2).join(' ')).finally(() => (this.jobs[rest[0]].done = true))
        return
      case 'join':
        return this.check(await this.jobs[rest[0]].result, expectation)
      case 'running':
        return assert.equal(this.jobs[rest[0]].done, false, 'the job has ended')
      case 'pause':
        return sleep(Number(rest[0]))
      case 'until': {
        const step = command.trim().split(/\s+/).slice(2).join(' ')
        const end = performance.now() + Number(rest[0])
        for (;;) {
          try {
            return await this.line(`${step} -> ${expectation}`)
          } catch (error) {
            if (performance.now() > end) throw error
          }
          await sleep(10)
        }
      }
    }
    if (onBed.has(first)) return this.testbed(command.trim(), expectation)
    return this.check(await this.step(command), expectation)
  }

  filled(text) {
    return text.replace(/\$([A-Z][A-Z0-9]*)/g, (_, name) => this.variables[name])
  }

  async testbed(command, expectation) {
    const answer = await this.bed.answer(this.filled(command))
    if (expectation?.startsWith('error ')) {
      return assert.ok(answer.startsWith('error') && answer.includes(this.filled(expectation.slice(6))), answer)
    }
    assert.match(answer, /^ok/)
    const rest = answer.slice(3)
    if (command.startsWith('servers')) this.bed.urls = rest.split(' ')
    if (expectation === undefined) return
    if (/^\d+\.\.\d+$/.test(expectation)) assert.ok(/^\d+$/.test(rest) && inRange(Number(rest), expectation), rest)
    else if (expectation.startsWith('store ')) this.variables[expectation.slice(6)] = rest
    else assert.equal(rest, this.filled(expectation))
  }

  client(actor, list = []) {
    let urls = this.bed.urls
    const given_ = Object.fromEntries(pairs(list))
    if (given_.servers) urls = given_.servers.split(',').map((i) => urls[i])
    const { user = '', password, db } = given_
    if (password) urls = urls.map((url) => url.replace('//', `//${user}:${password}@`))
    if (db) urls = urls.map((url) => `${url}/${db}`)
    const own = list.filter((word) => !/^(servers|user|password|db)=/.test(word))
    return (this.clients[actor] = new Client(urls, given(own)))
  }

  // What the step gave or threw, what it is called, and how long it took.
  async step(text) {
    const [slot, verb, ...rest] = words(text)
    const start = performance.now()
    try {
      const value = slot === 'client' ? this.client(verb, rest) && 'ok' : await this.call(slot, verb, rest)
      return { value, slot, took: performance.now() - start }
    } catch (error) {
      return { error, slot, took: performance.now() - start }
    }
  }

  async call(slot, verb, rest) {
    const actor = slot[0]
    const client = this.clients[actor] ?? this.client(actor)
    const lease = this.leases[slot]
    switch (verb) {
      case 'acquire':
      case 'try': {
        const name = rest[0]
        const got = await (verb === 'try' ? client.tryAcquire(name, given(rest.slice(1))) : client.acquire(name, given(rest.slice(1))))
        if (got === null) return 'none'
        if (lease) this.replaced.push(lease)
        this.leases[slot] = got
        return 'held'
      }
      case 'release':
        return `${await lease.release()}`
      case 'extend':
        return await lease.extend(given(rest).ttl)
      case 'confirm':
        return (await lease.confirm()) ?? 'ok'
      case 'ensure':
        return lease.ensureHeld() ?? 'ok'
      case 'held':
        return `${lease.held}`
      case 'remaining':
        return lease.remaining
      case 'fence':
        return 'fence'
      case 'name':
        return lease.name
      case 'lost':
        return lease.lostReason ?? 'none'
      case 'await-lost': {
        const { signal } = lease
        const lost = new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', resolve)))
        await Promise.race([lost, sleep(Number(rest[0]))])
        return signal.aborted ? lease.lostReason : 'none'
      }
      case 'inspect': {
        const [name, field] = rest
        const lock = await client.inspect(name)
        if (field === 'language') return lock.holder?.language ? 'known' : 'none'
        if (field === 'label') return lock.holder?.label ?? 'none'
        if (field === 'fence') return { fence: lock.fence }
        return field === 'remaining' ? lock.remaining : `${lock[field]}`
      }
      case 'break':
        return { fence: await client.breakLock(rest[0]) }
      case 'ping':
        return `up=${(await client.ping(given(rest).timeout ?? 1_000)).filter(({ up }) => up).length}`
      case 'close':
        return (await client.close(given(rest))) ?? 'ok'
    }
    assert.fail(`no such step: ${verb}`)
  }

  check({ value, error, slot, took }, expectation) {
    if (expectation === undefined) {
      if (error) throw error
      return assert.notEqual(value, 'none')
    }
    let parts = words(expectation)
    const fence = () => value?.fence ?? this.leases[slot].fence
    if (value === 'fence' || value?.fence) {
      assert.equal(error, undefined)
    } else {
      const [first] = parts
      parts = parts.slice(1)
      if (error) assert.equal(error.kind, first, error.stack)
      else if (typeof value === 'number') assert.ok(inRange(value, first), `${value}`)
      else assert.equal(value, first)
    }
    for (const part of parts) {
      const [, name, compare, expected] = part.match(/^(\w+)([=>])(.*)$/s)
      const all = () => [`${error}`, error.stack, inspect(error), JSON.stringify(error)].join('\n')
      if (name === 'fence' && compare === '>') assert.ok(fence() > this.variables[expected], `${fence()}`)
      else if (name === 'fence' && /^\d+$/.test(expected)) assert.equal(`${fence()}`, expected)
      else if (name === 'fence') assert.equal(fence(), (this.variables[expected] ??= fence()))
      else if (name === 'in') assert.ok(inRange(took, expected), `${took} ms`)
      else if (name === 'text') assert.ok(error.message.includes(expected), error.message)
      else if (name === 'hides') assert.ok(!all().includes(expected), all())
      else if (name === 'servers') assert.equal(`${error.servers.length}`, expected)
      else if (name === 'cause') assert.ok(error.servers.some(({ cause }) => cause.includes(expected)), inspect(error.servers))
      else assert.fail(`no such expectation: ${part}`)
    }
  }
}

const files = readdirSync(folder).filter((name) => name.endsWith('.scenario')).sort()
test('there are scenarios', () => assert.ok(files.length > 0))
for (const file of files) {
  test(file, async (t) => {
    const scenario = new Scenario()
    t.after(() => scenario.end())
    const lines = readFileSync(join(folder, file), 'utf8').split('\n')
    for (const [i, line] of lines.entries()) {
      if (line.trim() === '' || line.startsWith('#')) continue
      try {
        await scenario.line(line)
      } catch (error) {
        throw new Error(`${file}:${i + 1}: ${line}: ${error.message}`, { cause: error })
      }
    }
  })
}
