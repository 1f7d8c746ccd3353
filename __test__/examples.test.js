'use strict'

// What a newcomer runs first does what it says: the demo, the Express example, and the snippets of the README.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const http = require('node:http')
const os = require('node:os')
const path = require('node:path')
const { createLocks } = require('..')
const { ROOT, LIMIT: limit, createProject, environment, run } = require('./support/example-project')
const { monitor } = require('./support/monitor')
const { freePort, start } = require('./support/server')
const { find } = require('./support/server-binary')

let server
let project

beforeAll(async () => {
  server = await start()
  project = createProject('express-orders')
}, limit)

afterAll(() => project.remove())

describe('the demo', () => {
  const demo = (env) => run([path.join(ROOT, 'examples', 'demo', 'index.js')], { cwd: os.tmpdir(), env })

  test.each([
    ['on memory:', () => ({}), /^Holdfast demo: 4 threads on memory:demo, which excludes nobody outside/],
    [
      'on a server',
      () => ({ HOLDFAST_URL: server.url }),
      /^Holdfast demo: 4 processes on a real server, redis:/,
    ],
  ])(
    '%s shows lost updates without the lock and none with it',
    async (_, env, firstLine) => {
      const { code, stdout, stderr } = await demo(env())
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(stdout).toMatch(firstLine)
      const [, without, withLock] = stdout.split(/^With(?:out)? the lock .*$/m)
      expect(without).toMatch(/40 jobs are done, and the counter says \d+: \d+ updates are lost/)
      expect(withLock).toMatch(/40 jobs are done, and the counter says 40: none is lost/)
      expect(withLock).toMatch(/overlaps +0$/m)
      expect(withLock).toMatch(/fencing tokens .* each greater than the one before/)
      expect(withLock).toMatch(/waits +p50 [\d.]+ ms, p99 [\d.]+ ms, max [\d.]+ ms$/m)
      for (const part of [without, withLock]) expect(part.match(/^ {2}worker \d .*█/gm)).toHaveLength(4)
      expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
      expect(stdout).not.toContain('\x1b')
    },
    limit,
  )

  test(
    'says so when its server cannot be reached',
    async () => {
      const port = await freePort()
      const { code, stderr } = await demo({ HOLDFAST_URL: `redis://:secret@127.0.0.1:${port}` })
      expect(code).toBe(1)
      expect(stderr).toContain(`127.0.0.1:${port} can't be used`)
      expect(stderr).toContain('HOLDFAST_URL')
      expect(stderr).not.toMatch(/secret|^\s+at /m)
    },
    limit,
  )
})

describe('the Express example', () => {
  const short = { ORDERS: '80', CLIENTS: '8' }

  /** A row of its table: without the lock, with it. */
  function row(stdout, name) {
    const [line] = stdout.split('\n').filter((text) => text.trim().startsWith(name))
    return line
      .trim()
      .slice(name.length)
      .trim()
      .split(/\s{2,}/)
  }

  function checkReport({ code, stdout, stderr }) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const [stock] = row(stdout, 'things in stock at first').map(Number)
    const [without, withLock] = row(stdout, 'oversold by').map(Number)
    const [soldWithout, soldWith] = row(stdout, 'things sold').map(Number)
    expect(without).toBeGreaterThan(0)
    expect(soldWithout).toBeGreaterThan(stock)
    expect(withLock).toBe(0)
    expect(soldWith).toBeLessThanOrEqual(stock)
    expect(soldWith).toBeGreaterThan(0)
    expect(stdout).toContain('the fencing tokens of its orders rise')
  }

  test(
    'oversells without the lock and never with it, and leaves nothing behind',
    async () => {
      checkReport(await project.run('start.js', { ...short, HOLDFAST_URL: server.url }))
      const left = await server.command('KEYS', 'express-orders:*')
      expect(left.filter((key) => !key.includes('~'))).toEqual([])
    },
    limit,
  )

  test(
    'brings a server of its own',
    async () => {
      checkReport(await project.runWithoutUrl('start.js', short))
    },
    limit,
  )

  test(
    'answers 503 while a lock stays taken, and to those who wait for it when the service is to end',
    async () => {
      const locks = createLocks({ url: server.url, keyPrefix: 'express-orders:lock:' })
      const { process: service, port } = await startService()
      try {
        await server.command('SET', 'express-orders:stock:tea', 10)
        expect(await post(port, { sku: 'tea', quantity: 1 })).toMatchObject({ status: 201 })
        expect(await post(port, { sku: 'tea', quantity: 100 })).toMatchObject({ status: 409 })
        expect(await post(port, { sku: 'tea', quantity: 'one' })).toMatchObject({ status: 400 })

        // Without renewal: then it is the service's requests alone that name the key from here on.
        await locks.acquire('stock:tea', { ttl: 60_000, autoExtend: false })
        const busy = await post(port, { sku: 'tea', quantity: 1 })
        expect(busy).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })

        const seen = await monitor(server)
        const asked = seen.next('lock:stock:tea')
        const waiting = post(port, { sku: 'tea', quantity: 1 })
        await asked
        seen.close()
        service.kill('SIGTERM')
        expect(await waiting).toMatchObject({
          status: 503,
          body: { error: expect.stringContaining('closed') },
        })
        expect(await once(service, 'exit')).toEqual([0, null])
      } finally {
        service.kill('SIGKILL')
        await locks.close()
      }
    },
    limit,
  )

  test(
    'ends soon when it is told to under load, with every order answered and every lock given back',
    async () => {
      const { sendOrders } = require(path.join(project.folder, 'load.js'))
      const service = await startService()
      try {
        await server.command('SET', 'express-orders:stock:tea', 1_000_000)
        const orders = Array.from({ length: 2_000 }, () => ({ sku: 'tea', quantity: 1 }))
        const seen = await monitor(server)
        // Under way: the first order is written down.
        const begun = seen.next('express-orders:orders:tea')
        const load = sendOrders({ port: service.port, clients: 16, orders })
        await begun
        seen.close()
        const from = performance.now()
        service.process.kill('SIGTERM')
        expect(await once(service.process, 'exit')).toEqual([0, null])
        expect(performance.now() - from).toBeLessThan(10_000)
        const outcomes = new Set((await load).answers.map((answer) => answer.status))
        // Refused or reset: they came when nobody was there any more.
        const allowed = [201, 503, 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']
        expect([...outcomes].filter((outcome) => !allowed.includes(outcome))).toEqual([])
        expect(await server.command('KEYS', 'express-orders:lock:stock:*')).toEqual([])
      } finally {
        service.process.kill('SIGKILL')
      }
    },
    limit,
  )

  async function startService() {
    const service = spawn(process.execPath, ['service.js'], {
      cwd: project.folder,
      env: environment({ HOLDFAST_URL: server.url }),
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const [{ port }] = await once(service, 'message')
    return { process: service, port }
  }

  async function post(port, order) {
    const options = { port, path: '/orders', method: 'POST', headers: { 'content-type': 'application/json' } }
    const request = http.request({ host: '127.0.0.1', ...options })
    request.end(JSON.stringify(order))
    const [response] = await once(request, 'response')
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    return { status: response.statusCode, headers: response.headers, body: JSON.parse(text) }
  }
})

describe('the snippets of the documentation', () => {
  const snippets = ['README.md', 'docs/testing.md', 'docs/hot-keys.md'].flatMap((page) => {
    const text = fs.readFileSync(path.join(ROOT, page), 'utf8')
    return [...text.matchAll(/^( *)```js\n([\s\S]*?)^\1```$/gm)].map((match) => ({
      section: `${page} ${text
        .slice(0, match.index)
        .match(/^#+ .*$/gm)
        .at(-1)}`,
      code: match[2],
    }))
  })

  // What they take for granted, and the calls of what they define.
  const before = `
const stock = new Map([['tea', 1]])
const readStock = async (sku) => stock.get(sku)
const writeStock = async (sku, left, token) => stock.set(sku, token > 0 ? left : NaN)
const payment = async () => {}
const source = 'data:application/json,[1,2]'
const save = async (row) => console.log('saved', row)
`
  const beforeJest = (code) =>
    code.includes("require('holdfast')")
      ? ''
      : "const { createLocks } = require('holdfast')\nconst nextRow = () => new Promise((resolve) => setTimeout(resolve, 5))\n"
  const after = `
if (typeof order === 'function') order('tea').then(console.log).then(() => order('tea')).then(console.log)
if (typeof importAll === 'function') importAll()
if (typeof startRedis === 'function') {
  startRedis().then(async ({ url, stop }) => {
    const locks = require('holdfast').createLocks({ url })
    console.log(await locks.withLock('key', () => 'locked'))
    await locks.close()
    stop()
  })
}
if (typeof lockErrors === 'function') {
  const answers = []
  const response = { status: (code) => (answers.push(code), response), set: () => response, json() {} }
  const key = 'snippet'
  const first = withLock(key, () => require('holdfast').locks.detached(() => withLock(key, { timeout: 0 }, () => {})))
  first.catch((error) => lockErrors(error, {}, response, console.error)).then(() => console.log(...answers))
}
`
  const printed = [
    ['async function order', 'ordered\nsold out\n'],
    ['function lockErrors', '503\n'],
    ['importAll', 'saved 1\nsaved 2\n'],
    ['while (Date.now()', 'true\n'],
    ['async function startRedis', 'locked\n'],
  ]

  // The server that the tests use, by the name that readers know.
  let programs
  beforeAll(async () => {
    programs = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-programs-'))
    fs.symlinkSync(await find(), path.join(programs, 'redis-server'))
  })
  afterAll(() => fs.rmSync(programs, { recursive: true, force: true }))

  test('are found', () => {
    expect(snippets.length).toBeGreaterThan(5)
    for (const [mark] of printed) expect(snippets.filter(({ code }) => code.includes(mark))).toHaveLength(1)
  })

  test.each(snippets)(
    '$section',
    async ({ code }) => {
      const forJest = code.includes('test(')
      const file = path.join(project.folder, forJest ? 'snippet.test.js' : 'snippet.js')
      fs.writeFileSync(
        file,
        forJest
          ? `${beforeJest(code)}${code}`
          : `'use strict'
${before}${code}${after}`,
      )
      const jest = [require.resolve('jest/bin/jest'), '--watchman=false', `--rootDir=${project.folder}`]
      const env = { HOLDFAST_URL: server.url, PATH: `${programs}${path.delimiter}${process.env.PATH}` }
      const done = await run(forJest ? jest : [file], { cwd: project.folder, env })
      expect(done).toMatchObject({ code: 0, ...(forJest ? {} : { stderr: '' }) })
      const [, output] = printed.find(([mark]) => code.includes(mark)) ?? []
      if (output) expect(done.stdout).toBe(output)
    },
    limit,
  )
})
