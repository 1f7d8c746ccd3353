'use strict'

const { spawn } = require('node:child_process')
const { accessSync, constants, mkdtempSync, rmSync } = require('node:fs')
const { createServer } = require('node:net')
const { tmpdir } = require('node:os')
const { delimiter, join } = require('node:path')
const { createInterface } = require('node:readline')
const { Redis } = require('ioredis')

const ATTEMPTS = 5

/** Starts a private server on a free port of 127.0.0.1, without persistence. It ends with this process at the latest. */
async function start() {
  const binary = find()
  for (let attempt = 1; ; attempt++) {
    // Somebody else may take the port between our look and the server's bind: then try another one.
    const port = await freePort()
    try {
      return await launch(binary, port)
    } catch (error) {
      if (attempt === ATTEMPTS) throw error
    }
  }
}

function find() {
  const given = process.env.HOLDFAST_TEST_REDIS_SERVER
  if (given) return given
  const folders = (process.env.PATH ?? '').split(delimiter)
  for (const name of ['redis-server', 'valkey-server']) {
    for (const folder of folders) {
      const path = join(folder, name)
      try {
        accessSync(path, constants.X_OK)
        return path
      } catch {
        // Not here: look in the next folder.
      }
    }
  }
  throw new Error(
    'no redis-server or valkey-server in PATH: install one, or set HOLDFAST_TEST_REDIS_SERVER to the path of one',
  )
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

async function launch(binary, port) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
  const settings = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir: folder, daemonize: 'no' }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'ignore'] })

  const end = () => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', end)

  try {
    await ready(child)
  } catch (error) {
    process.off('exit', end)
    end()
    throw error
  }

  const url = `redis://127.0.0.1:${port}`
  const control = new Redis(url)
  const facts = fields(await control.info('server'))

  return {
    url,
    port,
    version: facts.valkey_version ? `Valkey ${facts.valkey_version}` : `Redis ${facts.redis_version}`,
    /** For looking at keys while nothing is being timed. */
    control,
    /** CPU used so far by all threads of the server, µs. */
    async cpu() {
      const info = fields(await control.info('cpu'))
      return (Number(info.used_cpu_user) + Number(info.used_cpu_sys)) * 1e6
    },
    /** From now on, what scripts cost and which requests keep the server longer than `us` is noted. */
    async watchRequests(us) {
      await control.config('SET', 'slowlog-log-slower-than', us)
      await control.config('SET', 'slowlog-max-len', 100_000)
      await control.slowlog('RESET')
      await control.config('RESETSTAT')
    },
    /** What was noted: the mean of a script, µs, and how many requests were longer. */
    async watchedRequests() {
      const stats = fields(await control.info('commandstats'))
      let calls = 0
      let usec = 0
      for (const name of ['cmdstat_evalsha', 'cmdstat_eval']) {
        const [, count, time] = /^calls=(\d+),usec=(\d+)/.exec(stats[name] ?? '') ?? [0, 0, 0]
        calls += Number(count)
        usec += Number(time)
      }
      return { longer: await control.slowlog('LEN'), usPerScript: calls === 0 ? null : usec / calls }
    },
    async stop() {
      control.disconnect()
      const ended = new Promise((resolve) => child.once('exit', resolve))
      process.off('exit', end)
      end()
      await ended
    },
  }
}

/** Resolves at the server's own word that it accepts connections. */
function ready(child) {
  return new Promise((resolve, reject) => {
    const said = []
    // Read on after that: a full pipe would stop the server.
    createInterface({ input: child.stdout }).on('line', (line) => {
      said.push(line)
      if (said.length > 20) said.shift()
      if (line.includes('Ready to accept connections')) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      reject(new Error(`the server ended (${signal ?? code}) before it was ready:\n${said.join('\n')}`))
    })
  })
}

function fields(info) {
  const pairs = info
    .split('\r\n')
    .filter((line) => line.includes(':'))
    .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)])
  return Object.fromEntries(pairs)
}

module.exports = { start }
