'use strict'
// Real servers (by quorlock-testbed, ../../tests/README.md), clients that are closed in the end, and child processes.
const assert = require('node:assert/strict')
const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { join } = require('node:path')
const { createInterface } = require('node:readline')
const { setTimeout: sleep } = require('node:timers/promises')
const { Client, QuorlockError } = require('../index.js')

const package_ = join(__dirname, '..')
const program = process.env.QUORLOCK_TESTBED ?? join(package_, '..', 'target', 'ci', 'quorlock-testbed')

class Testbed {
  #child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] })
  #waiting = []
  urls = []

  constructor() {
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#waiting.shift()(line))
    this.#child.stdin.on('error', () => {}) // its end shows as missing answers
    this.#child.on('exit', () => this.#waiting.splice(0).forEach((answer) => answer('error the testbed has ended')))
  }

  // The whole answer, `ok …` or `error …`.
  answer(line) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#child.stdin.write(`${line}\n`)
    })
  }

  async ask(line) {
    const answer = await this.answer(line)
    assert.match(answer, /^ok/, `${line}: ${answer}`)
    return answer.slice(3)
  }

  async servers(count, ...args) {
    this.urls = (await this.ask(['servers', count, ...args].join(' '))).split(' ')
    return this.urls
  }

  async redis(server, ...args) {
    return JSON.parse(await this.ask(`cmd ${server} ${args.map((arg) => JSON.stringify(String(arg))).join(' ')}`))
  }

  // Commands that clients sent since `monitor I start`, and that name `text`.
  async sent(server, text = '') {
    const all = JSON.parse(await this.ask(`monitor ${server} stop`))
    return all.filter(([by, ...words]) => by === 'client' && words.some((word) => word.includes(text)))
  }

  async end() {
    if (this.#child.exitCode !== null) return
    this.#child.stdin.end()
    await once(this.#child, 'exit')
  }
}

// A testbed with so many servers for this test.
async function testbed(t, servers = 1, ...args) {
  const bed = new Testbed()
  t.after(() => bed.end())
  await bed.servers(servers, ...args)
  return bed
}

// Tests share their machine: a server that is late for lack of CPU is none that fails, so its limit is wide.
const patient = { serverTimeout: 400 }

function connect(t, urls, options) {
  const client = new Client(urls, { ...patient, ...options })
  t.after(() => client.close())
  return client
}

// Until `condition` gives something true; that is the result.
async function until(condition, limit = 5_000) {
  const end = performance.now() + limit
  for (;;) {
    const result = await condition()
    if (result) return result
    assert.ok(performance.now() < end, `not within ${limit} ms: ${condition}`)
    await sleep(5)
  }
}

// How many milliseconds `work` took, and what it gave or threw.
async function timed(work) {
  const start = performance.now()
  const [outcome] = await Promise.allSettled([work()])
  return { took: performance.now() - start, value: outcome.value, error: outcome.reason }
}

function within(ms, low, high, what = 'ms') {
  assert.ok(ms >= low && ms <= high, `${ms} ${what}: not in ${low}..${high}`)
}

async function fails(promise, code) {
  const error = await promise.then(
    (value) => assert.fail(`${code} expected, not ${value}`),
    (error) => error,
  )
  assert.ok(error instanceof QuorlockError, `${error?.stack}`)
  assert.equal(error.code, code, `${error.stack}`)
  return error
}

// Runs `script(connect, ...args)` as the main module of another Node, where `connect(options)` makes a client of `url`.
// `line(text)` waits for a line on its stdout.
class Child {
  constructor(t, url, script, { args = [], flags = [] } = {}) {
    const text = `const { Client } = require(${JSON.stringify(package_)})
      const connect = (options) => new Client('${url}', { ...${JSON.stringify(patient)}, ...options });
      (${script})(connect, ...${JSON.stringify(args)})`
    this.process = spawn(process.execPath, [...flags, '-e', text], { stdio: ['pipe', 'pipe', 'pipe'] })
    this.stderr = ''
    this.lines = []
    this.process.stderr.on('data', (data) => (this.stderr += data))
    createInterface({ input: this.process.stdout }).on('line', (line) => this.lines.push(line))
    this.exited = once(this.process, 'close').then(([code, signal]) => ({ code, signal, at: performance.now() }))
    t.after(() => this.process.kill('SIGKILL') && this.exited)
  }

  line(text) {
    return until(() => {
      const found = this.lines.find((line) => line.startsWith(text))
      assert.ok(found || this.process.exitCode === null, `no ${text} from ${this.process.spawnargs.at(-1)}\n${this.stderr}`)
      return found
    }, 20_000)
  }

  // Its exit code, 0 unless said otherwise, and a clean stderr.
  async end(code = 0) {
    await until(() => this.process.exitCode !== null || this.process.signalCode !== null, 20_000)
    const result = await this.exited
    assert.equal(result.code, code, this.stderr)
    if (code === 0) assert.equal(this.stderr, '')
    return result
  }
}

module.exports = { Testbed, testbed, connect, patient, until, timed, within, fails, Child, sleep, package_ }
