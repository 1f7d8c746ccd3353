'use strict'

const { spawn } = require('node:child_process')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')

// The server that an example works on.

/**
 * The one that HOLDFAST_URL names, or else one of the example's own; once it has answered.
 * @param {typeof import('..').createLocks} createLocks
 */
async function findRedis(createLocks) {
  const given = process.env.HOLDFAST_URL
  if (given?.startsWith('memory:')) {
    throw new Error(`${given} is inside one process, and these are several: they need a server`)
  }
  const redis = given ? { url: given, async stop() {} } : await startRedis()
  const locks = createLocks({ url: redis.url })
  try {
    await locks.ready({ timeout: 2_000 })
    return redis
  } catch (error) {
    await redis.stop()
    throw error
  } finally {
    await locks.close()
  }
}

/** Starts a Redis or Valkey server from PATH, for this process alone: on a free port, in a folder that is removed. */
async function startRedis() {
  const binary = find()
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-example-'))
  const port = await freePort()
  const args = ['--port', port, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no']
  // Detached: Ctrl-C is for the service, which needs Redis while it finishes.
  const child = spawn(binary, args.map(String), { stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const end = () => {
    child.kill('SIGKILL')
    fs.rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', end)
  await ready(child)
  return {
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      process.off('exit', end)
      end()
      await ended
    },
  }
}

function find() {
  const folders = (process.env.PATH ?? '').split(path.delimiter)
  for (const name of ['redis-server', 'valkey-server']) {
    for (const folder of folders) {
      const file = path.join(folder, name)
      if (fs.existsSync(file)) return file
    }
  }
  throw new Error(
    'there is no redis-server or valkey-server in PATH: install one, or set HOLDFAST_URL to a server, as in\n' +
      'HOLDFAST_URL=redis://127.0.0.1:6379 npm start',
  )
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = net.createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

/** Resolves at the server's own word. */
function ready(child) {
  return new Promise((resolve, reject) => {
    let log = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      // Read to the end, since a full pipe would stop the server; kept until it is ready.
      if (log.length < 10_000) log += text
      if (log.includes('Ready to accept connections')) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) =>
      reject(new Error(`redis-server ended (${code}) before it was ready:\n${log}`)),
    )
  })
}

module.exports = { findRedis }
