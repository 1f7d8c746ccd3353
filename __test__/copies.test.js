'use strict'

// Several copies of the package in one process, as tests that reset modules, bundles and hot reloading make them: each works,
// and they are one process all the same.

const { once } = require('node:events')
const { Worker } = require('node:worker_threads')
const path = require('node:path')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

function load() {
  let copy
  jest.isolateModules(() => {
    copy = require('..')
  })
  return copy
}

eachStore((store) => {
  let copies
  let managers
  let key

  beforeEach(() => {
    jest.resetModules()
    copies = [require('..'), load(), load()]
    managers = copies.map((copy) => copy.createLocks({ url: store.url }))
    key = store.newKey()
  })

  afterEach(() => Promise.all(managers.map((locks) => locks.close())))

  test('are different copies, which know their own classes, and each other’s errors by their code', async () => {
    const [one, other] = copies
    expect(other.LockManager).not.toBe(one.LockManager)
    const lock = await managers[0].acquire(key)
    expect(lock).toBeInstanceOf(one.Lock)
    expect(lock).not.toBeInstanceOf(other.Lock)
    const error = await managers[1].acquire(key, { timeout: 0 }).catch((reason) => reason)
    expect(error).toBeInstanceOf(other.LockTimeoutError)
    expect(error).not.toBeInstanceOf(one.LockTimeoutError)
    expect(one.isLockError(error, 'ERR_LOCK_TIMEOUT')).toBe(true)
    expect(one.isLockError(error, 'ERR_LOCK_LOST')).toBe(false)
  })

  test('exclude each other and stand in one line', async () => {
    const first = await managers[0].acquire(key)
    const served = []
    const callers = Array.from({ length: 30 }, async (_, i) => {
      const lock = await managers[i % 3].acquire(key)
      served.push(i)
      await lock.release()
    })
    for (const locks of managers) expect(await locks.tryAcquire(key)).toBe(null)
    await first.release()
    await Promise.all(callers)
    expect(served).toEqual(Array.from({ length: 30 }, (_, i) => i))
    // By one core, without asking the store each time.
    expect(managers.reduce((sum, locks) => sum + locks.stats().handedOn, 0)).toBeGreaterThan(20)
  })

  test('the locks of one outlive the other, and are lost by themselves', async () => {
    const [one, other] = managers
    const lost = jest.fn()
    other.on('lost', lost)
    const [theirs, short] = await Promise.all([
      other.acquire(key),
      one.acquire(`${key}:short`, { ttl: 100, autoExtend: false }),
    ])
    const waiting = other.acquire(`${key}:short`)
    await once(short.signal, 'abort')
    expect((await waiting).held).toBe(true)
    await one.close()
    expect(theirs.held).toBe(true)
    expect(await theirs.release()).toBe(true)
    expect(lost).not.toHaveBeenCalled()
  })
})

onServer((store) => {
  /** How many connections there are, besides the test's own: pairs of one for commands and one for what the server says. */
  const connections = async () => {
    const list = await store.server.command('CLIENT', 'LIST')
    return (list.trim().split('\n').length - 1) / 2
  }

  const threads = []
  afterEach(() => Promise.all(threads.splice(0).map((each) => each.terminate())))

  async function holdInThread(key) {
    const thread = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads')
      const { createLocks } = require(workerData.holdfast)
      createLocks({ url: workerData.url }).acquire(workerData.key).then(() => parentPort.postMessage('held'))
      parentPort.on('message', () => {})`,
      { eval: true, workerData: { holdfast: path.join(__dirname, '..'), url: store.url, key } },
    )
    threads.push(thread)
    await once(thread, 'message')
  }

  test('managers with equal options share one connection: of one copy, of several, and of several threads', async () => {
    const mine = [store.createLocks(), store.createLocks({ ttl: 5_000, timeout: 1_000 })]
    const theirs = [load(), load()].map((copy) => copy.createLocks({ url: store.url }))
    const managers = [...mine, ...theirs]
    await Promise.all(managers.map((locks, i) => locks.acquire(`${i}`)))
    await Promise.all([holdInThread('a'), holdInThread('b')])
    expect(await connections()).toBe(1)

    // It stays for as long as one of them is left.
    await Promise.all(managers.slice(1).map((locks) => locks.close()))
    await Promise.all(threads.map((each) => each.terminate()))
    expect(await connections()).toBe(1)
    expect(await managers[0].withLock('c', () => 'value')).toBe('value')
    await managers[0].close()
    await until('it is closed', async () => (await connections()) === 0)
  })

  test.each([
    ['another name of the host', () => ({ url: store.server.otherUrl })],
    ['another database', () => ({ db: 1 })],
    ['another keyPrefix', () => ({ keyPrefix: 'other:' })],
    ['another commandTimeout', () => ({ commandTimeout: 500 })],
  ])('a manager with %s has a connection of its own', async (_, options) => {
    await store.createLocks().acquire(store.newKey())
    await store.createLocks(options()).acquire(store.newKey())
    expect(await connections()).toBe(2)
  })
})
