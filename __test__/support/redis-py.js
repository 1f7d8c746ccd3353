'use strict'

// The redis package of Python, in a folder of the project's cache, for a test that meets it.

const { execFile, spawn } = require('node:child_process')
const fs = require('node:fs/promises')
const path = require('node:path')
const { promisify } = require('node:util')

const run = promisify(execFile)
const VERSION = '7.1.0'
const FOLDER = path.join(__dirname, '..', '..', '.cache', `redis-py-${VERSION}`)

/** The folder to put into PYTHONPATH; null if there is no Python, or its package can't be had. */
async function find() {
  if (await exists(FOLDER)) return FOLDER
  const making = `${FOLDER}.${process.pid}`
  try {
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', making]
    await run('python3', [...pip, `redis==${VERSION}`], { timeout: 120_000 })
    await fs.rename(making, FOLDER).catch(() => {})
    return FOLDER
  } catch {
    return null
  } finally {
    await fs.rm(making, { recursive: true, force: true })
  }
}

async function exists(file) {
  return fs.access(file).then(
    () => true,
    () => false,
  )
}

/** Starts a script of `workers`; resolves when it has said that it is ready. */
async function start(folder, script, args) {
  const child = spawn('python3', [path.join(__dirname, '..', 'workers', script), ...args.map(String)], {
    env: { ...process.env, PYTHONPATH: folder },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdout.setEncoding('utf8')
  const lines = []
  const waiting = []
  let rest = ''
  child.stdout.on('data', (text) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop()
    for (const line of parts) {
      const next = waiting.shift()
      if (next) next(line)
      else lines.push(line)
    }
  })
  const line = () =>
    new Promise((resolve) => (lines.length > 0 ? resolve(lines.shift()) : waiting.push(resolve)))
  await line()
  return { line, go: () => child.stdin.write('go\n'), kill: () => child.kill('SIGKILL') }
}

module.exports = { find, start }
