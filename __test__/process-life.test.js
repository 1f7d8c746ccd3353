'use strict'

// How locks and processes go together: what keeps a process alive, and what its end does to its locks.

const { startProxy } = require('./support/proxy')
const { startWorker } = require('./support/processes')
const { start } = require('./support/server')
const { until } = require('./support/until')

let server
let key
let count = 0

beforeAll(async () => {
  server = await start()
})

beforeEach(() => {
  key = `life:${++count}`
})

const live = (scenario, settings) => startWorker('life', { scenario, url: server.url, key, ...settings })
const exists = async (name = key) => (await server.command('EXISTS', `lock:${name}`)) === 1

/** Resolves when the process has ended by itself; far sooner than any lease, and later than any promise. */
async function endOf(worker, expected) {
  const { code, signal, output } = await worker.ended
  expect({ code, signal }).toEqual(expected)
  return output
}

const byItself = { code: 0, signal: null }

describe('alive', () => {
  test('a pending acquire keeps the process alive', async () => {
    await server.command('SET', `lock:${key}`, 'somebody')
    const worker = live('waits for a lock')
    await worker.next('waiting')
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(worker.gone).toBe(undefined)
    await server.command('DEL', `lock:${key}`)
    await worker.next('got')
    await endOf(worker, byItself)
  })

  test('a pending release and a pending ready keep it alive', async () => {
    const proxy = await startProxy(server.port)
    const worker = live('waits for an answer', { url: proxy.url })
    await worker.next('held')
    proxy.blackHole()
    expect(await worker.next('answers')).toMatchObject({
      release: 'ERR_LOCK_UNAVAILABLE',
      ready: 'ERR_LOCK_UNAVAILABLE',
    })
    await endOf(worker, byItself)
  })

  test.each(['holds a lock and has nothing more to do', 'is connected and idle'])(
    'a process that %s ends by itself',
    async (scenario) => {
      const worker = live(scenario)
      await endOf(worker, byItself)
      await until('the lock is given back', async () => !(await exists()))
    },
  )

  test('a lock of the embedded store keeps nothing alive either', async () => {
    await endOf(live('holds a lock and has nothing more to do', { url: 'memory:' }), byItself)
    const worker = live('waits for a lock', { url: 'memory:' })
    await worker.next('got')
    await endOf(worker, byItself)
  })
})

describe('the end gives locks back', () => {
  test.each([
    'calls process.exit() while it holds locks',
    'calls process.exit() while it holds locks of every kind',
    'calls process.exit() within withLock',
    'calls process.exit() while it waits, and while a lock is on its way',
  ])('a process that %s', async (scenario) => {
    await server.command('SET', 'lock:taken', 'somebody')
    const worker = live(scenario, { taken: 'taken' })
    await worker.next('held')
    expect(await endOf(worker, { code: 3, signal: null })).toBe('')
    await until(
      'the locks are given back',
      async () => (await server.command('KEYS', `*lock:${key}*`)).length === 0,
    )
    expect(await server.command('GET', 'lock:taken')).toBe('somebody')
  })

  test.each([
    ['throws what nobody catches', 'nobody catches this'],
    ['rejects what nobody handles', 'nobody handles this'],
  ])('a process that %s', async (scenario, words) => {
    const worker = live(scenario)
    await worker.next('held')
    expect(await endOf(worker, { code: 1, signal: null })).toContain(words)
    await until('the lock is given back', async () => !(await exists()))
  })

  test('a process that closes when it is asked to end', async () => {
    const worker = live('closes when it is asked to end')
    await worker.next('held')
    worker.kill('SIGTERM')
    await endOf(worker, byItself)
    expect(await exists()).toBe(false)
  })

  test.each(['closes when it is asked to end', 'calls process.exit() when it is asked to end'])(
    'the end of a process that %s is not held up by a server that does not answer',
    async (scenario) => {
      const proxy = await startProxy(server.port)
      const worker = live(scenario, { url: proxy.url })
      await worker.next('held')
      proxy.blackHole()
      const from = performance.now()
      worker.kill('SIGTERM')
      await endOf(worker, byItself)
      expect(performance.now() - from).toBeLessThan(5_000)
    },
  )
})

describe('a process that is killed', () => {
  // Node runs no code then, so only the ttl gives the lock back.
  test.each(['SIGINT', 'SIGTERM', 'SIGKILL'])('by %s leaves its lock to the ttl', async (signal) => {
    const worker = live('is killed while it holds a lock', { ttl: 1_000 })
    await worker.next('held')
    await worker.kill(signal)
    expect((await worker.ended).signal).toBe(signal)
    const left = await server.command('PTTL', `lock:${key}`)
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(1_010)
    await until('the lease is over', async () => !(await exists()), { within: 3_000 })
  })
})

describe('worker threads', () => {
  const thread = (scenario, settings) =>
    startWorker('threads', { scenario, url: server.url, key, ...settings })

  describe.each([true, false])('the main thread uses the package as well: %s', (loadInMain) => {
    test.each(['terminate', 'run out of work', 'process.exit()'])(
      'the lock of a thread that ends (%s) is given back',
      async (end) => {
        const worker = thread('a thread that holds a lock ends', { end, loadInMain })
        await worker.next('held')
        expect(await exists()).toBe(true)
        worker.send('end')
        await worker.next('ended')
        await until('the lock is given back', async () => !(await exists()))
        if (loadInMain) expect(await exists(`${key}:main`)).toBe(true)
        worker.send('end')
      },
    )

    test('30 threads terminated in the middle of their calls crash nothing', async () => {
      const worker = thread('threads are terminated in the middle of it', { loadInMain, rounds: 3 })
      await worker.next('ended')
      expect(await endOf(worker, byItself)).toBe('')
      const own = async () => (await server.command('KEYS', `lock:${key}*`)).length
      await until('nothing is left', async () => (await own()) === 0)
    })

    test.each(['a server', 'memory:'])('threads exclude each other, on %s', async (place) => {
      const url = place === 'memory:' ? place : server.url
      const worker = thread('threads do their work', { loadInMain, url })
      expect(await worker.next('ended')).toMatchObject({ counts: [50, 50, 50, 50] })
      await endOf(worker, byItself)
    })
  })
})

test('require and import give the same functions and classes', async () => {
  const worker = startWorker('module-systems')
  const { names, ...compared } = await worker.next('compared')
  expect(compared).toEqual({ type: 'compared', different: [], missing: [], isLock: true, isLockError: true })
  const promised = [
    ...[
      'withLock',
      'tryWithLock',
      'acquire',
      'tryAcquire',
      'release',
      'configure',
      'locks',
      'createLocks',
      'isLockError',
    ],
    ...[
      'Lock',
      'LockManager',
      'LockError',
      'LockTimeoutError',
      'LockLostError',
      'LockUnavailableError',
      'LockClosedError',
    ],
    ...['LockDeadlockError', 'LockWrongTypeError', 'LockBindingError'],
    ...[
      'Cache',
      'CacheError',
      'CacheLoadError',
      'CacheTimeoutError',
      'CacheValueError',
      'CacheDeadlockError',
    ],
  ]
  expect(names).toEqual(promised.sort())
  await endOf(worker, byItself)
})

describe('the addon', () => {
  const library = process.report.getReport().sharedObjects.find((file) => /\/libm[.-]/.test(file))
  test.each([
    ['is missing', '/nonexistent/holdfast.node'],
    ['is no library at all', __filename],
    ['is a library, but no addon', library],
  ])('%s: ERR_NATIVE_BINDING at the first call, not at the import', async (_, file) => {
    const worker = startWorker('load-addon', {}, { env: { HOLDFAST_NATIVE_PATH: file } })
    const { outcomes } = await worker.next('outcomes')
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({
        code: 'ERR_NATIVE_BINDING',
        isBindingError: true,
        name: 'LockBindingError',
      })
      expect(outcome).toMatchObject({ platform: process.platform, arch: process.arch })
      expect(outcome.message).toContain(file)
    }
    expect(await endOf(worker, byItself)).toBe('')
  })
})
