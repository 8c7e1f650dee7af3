'use strict'
// Finds and loads the native half (../src). It is one file for each platform: beside this package when it was built
// here, else in the package `quorlock-PLATFORM`, of which npm installs the one that fits. Its exports have no public
// promises and only this folder uses them, so they have no declarations of their own: ../index.d.ts is the contract.
const { join } = require('node:path')

const linux = process.platform === 'linux'
const platform = `${process.platform}-${process.arch}`
// A library for the wrong libc fails to load and harms nothing, so there is no need to know which one it is beforehand.
const names = linux ? [`${platform}-gnu`, `${platform}-musl`] : process.platform === 'win32' ? [`${platform}-msvc`] : [platform]
const places = names.flatMap((name) => [join(__dirname, '..', `quorlock.${name}.node`), `quorlock-${name}`])

function libc() {
  process.report.excludeNetwork = true // else it asks for the names of all network addresses
  const { glibcVersionRuntime } = process.report.getReport().header
  return glibcVersionRuntime ? `glibc ${glibcVersionRuntime}` : 'musl or another libc'
}

function load() {
  const failures = []
  for (const place of places) {
    try {
      return require(place)
    } catch (error) {
      failures.push({ place, error })
    }
  }
  throw new Error(
    [
      `quorlock has no native library for ${process.platform} ${process.arch}${linux ? ` (${libc()})` : ''}, Node ${process.version}. Tried:`,
      ...failures.map(({ place, error }) => `  ${place}: ${error.message.split('\n')[0]}`),
      `If one of the packages should be there: npm may have left out an optional dependency (npm/cli#4828);`,
      `remove node_modules and package-lock.json and install again.`,
    ].join('\n'),
    { cause: failures.length === 1 ? failures[0].error : new AggregateError(failures.map(({ error }) => error)) },
  )
}

module.exports = load()
