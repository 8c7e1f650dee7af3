'use strict'
// Builds the native half and puts it beside index.js, with the licences, ready for `npm pack`. QUORLOCK_PROFILE names
// the cargo profile: `ci` is quick to build, `release` is what users get.
const { execFileSync } = require('node:child_process')
const { copyFileSync, renameSync } = require('node:fs')
const { join } = require('node:path')

const profile = process.env.QUORLOCK_PROFILE ?? 'ci'
const args = ['build', '--profile', profile, '-p', 'quorlock-node', '--message-format', 'json-render-diagnostics']
const messages = execFileSync('cargo', args, {
  cwd: __dirname,
  encoding: 'utf8',
  maxBuffer: 1 << 30,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const [library] = messages
  .split('\n')
  .filter((line) => line.startsWith('{'))
  .map((line) => JSON.parse(line))
  .filter(({ reason, target }) => reason === 'compiler-artifact' && target.name === 'quorlock_node')
  .flatMap(({ filenames }) => filenames)
  .filter((name) => /\.(so|dylib|dll)$/.test(name))

process.report.excludeNetwork = true
const libc = { linux: process.report.getReport().header.glibcVersionRuntime ? '-gnu' : '-musl', win32: '-msvc' }
const addon = join(__dirname, `quorlock.${process.platform}-${process.arch}${libc[process.platform] ?? ''}.node`)
// Renamed into place: a process that has the old one loaded keeps it.
copyFileSync(library, `${addon}.new`)
renameSync(`${addon}.new`, addon)
for (const license of ['LICENSE-MIT', 'LICENSE-APACHE']) copyFileSync(join(__dirname, '..', license), join(__dirname, license))
console.log(`${addon} (${profile})`)
