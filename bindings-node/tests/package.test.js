'use strict'
// The package as users get it: declarations that tell the truth, a tarball that installs, a loader that explains itself.
const assert = require('node:assert/strict')
const { execFileSync, spawnSync } = require('node:child_process')
const { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const test = require('node:test')
const ts = require('typescript')
const quorlock = require('../index.js')
const { package_, testbed } = require('./helpers.js')

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'quorlock-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}

test('index.d.ts declares what there is, and nothing else', () => {
  const file = join(package_, 'index.d.ts')
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest)
  const exported = []
  for (const statement of source.statements) {
    if (ts.isVariableStatement(statement)) exported.push(...statement.declarationList.declarations.map((d) => d.name.text))
    if (!ts.isClassDeclaration(statement)) continue
    exported.push(statement.name.text)
    const members = statement.members.filter(({ name }) => name)
    const declared = new Set(members.map(({ name }) => (ts.isComputedPropertyName(name) ? 'Symbol.asyncDispose' : name.text)))
    const { prototype } = quorlock[statement.name.text]
    const present = Reflect.ownKeys(prototype)
      .filter((key) => key !== 'constructor' && key !== Symbol.for('nodejs.util.inspect.custom'))
      .map((key) => (key === Symbol.asyncDispose ? 'Symbol.asyncDispose' : key))
    if (statement.name.text === 'QuorlockError') {
      // The rest are own properties of each error.
      const error = (() => { try { new quorlock.Client([]) } catch (error) { return error } })()
      present.push(...Object.keys(error), 'result')
    }
    assert.deepEqual([...declared].sort(), present.sort(), statement.name.text)
  }
  assert.deepEqual(exported.sort(), Object.keys(quorlock).sort())
})

test('an ES module has the same classes', async () => {
  const module = await import('../index.mjs')
  assert.deepEqual({ ...module }, quorlock)
})

test('the tarball installs into a new project and works', async (t) => {
  const [bed, project] = [await testbed(t), folder(t)]
  const npm = (...args) => execFileSync('npm', args, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  // What is to be packed has been built by whoever runs the tests.
  const [{ filename, files }] = JSON.parse(npm('pack', package_, '--ignore-scripts', '--json'))
  for (const part of ['.node', 'LICENSE-MIT', 'index.d.mts']) assert.ok(files.some(({ path }) => path.endsWith(part)), part)
  assert.deepEqual(files.filter(({ path }) => /^(tests|src|node_modules)\//.test(path)), [])
  writeFileSync(join(project, 'package.json'), '{ "name": "user", "version": "1.0.0" }')
  npm('install', `./${filename}`, '--offline', '--no-audit', '--no-fund')
  const body = `const client = new Client('${bed.urls[0]}')
    client.withLock('job', async (lease) => console.log(lease.fence > 0, typeof version))`
  writeFileSync(join(project, 'a.cjs'), `const { Client, version } = require('quorlock')\n${body}`)
  writeFileSync(join(project, 'b.mjs'), `import { Client, version } from 'quorlock'\n${body}`)
  for (const script of ['a.cjs', 'b.mjs']) {
    assert.equal(execFileSync(process.execPath, [script], { cwd: project, encoding: 'utf8' }), 'true string\n')
  }
  // Its declarations are found by both kinds of module.
  const typed = `import { Client, type Lease } from 'quorlock'
    export const lease: Promise<Lease> = new Client('redis://localhost').acquire('job')`
  for (const script of ['c.cts', 'd.mts']) writeFileSync(join(project, script), typed)
  const modules = join(package_, 'node_modules')
  const options = `--noEmit --strict --target es2022 --module node16 --types node --typeRoots ${join(modules, '@types')}`
  const tsc = [join(modules, 'typescript', 'bin', 'tsc'), ...options.split(' '), 'c.cts', 'd.mts']
  assert.equal(spawnSync(process.execPath, tsc, { cwd: project, encoding: 'utf8' }).stdout, '')
})

test('o63_the_loader_says_what_it_tried', (t) => {
  const copy = folder(t)
  for (const part of ['index.js', 'package.json', 'lib']) cpSync(join(package_, part), join(copy, part), { recursive: true })
  const load = () => {
    const script = `try { require(${JSON.stringify(copy)}) } catch (error) { console.log(error.message, '|', error.cause?.errors?.length) }`
    return execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' })
  }
  const nothing = load()
  assert.ok(nothing.includes(`for ${process.platform} ${process.arch}`), nothing)
  if (process.platform === 'linux') {
    assert.match(nothing, /glibc 2\.|musl/)
    for (const libc of ['gnu', 'musl']) {
      const name = `linux-${process.arch}-${libc}`
      assert.ok(nothing.includes(join(copy, `quorlock.${name}.node`)) && nothing.includes(` quorlock-${name}: `), nothing)
    }
    writeFileSync(join(copy, `quorlock.linux-${process.arch}-gnu.node`), 'this is no library')
    assert.match(load(), /invalid ELF header|file too short/)
  }
  assert.match(nothing, /npm\/cli#4828/)
})

test('one version for everything', () => {
  const { version } = JSON.parse(readFileSync(join(package_, 'package.json')))
  assert.equal(require('../lib/native.js').VERSION, version)
  assert.equal(quorlock.version, version)
})
