'use strict'

// P3 no ghost: a command that the network delivers long after its connection was given up and its caller has gone.
// It is executed after what was sent later, the release of its own token too.

const { once } = require('node:events')
const path = require('node:path')
const { Worker } = require('node:worker_threads')
const { startProxy } = require('./support/proxy')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const DELAY = 800
// A release that may have come before its acquire is repeated every second until that can't be any more.
const BEAT = 1_000
// What a busy machine may add.
const SLACK = 500
const LONG_TTL = 600_000

onServer((store) => {
  let proxy
  let manager
  let locks
  let key

  beforeEach(async () => {
    proxy = await startProxy(store.server.port)
    manager = { url: proxy.url, commandTimeout: 300 }
    locks = store.createLocks(manager)
    key = store.newKey()
    await locks.ready()
  })

  const exists = async () => (await store.server.command('KEYS', `lock:${key}*`)).length > 0
  const delivered = () => until('it is delivered', exists, { within: DELAY + SLACK })

  async function expectGone(within) {
    const from = performance.now()
    await until('the key is gone', async () => !(await exists()))
    expect(performance.now() - from).toBeLessThan(within)
  }

  /** Begins a call whose command will be late, and cuts its connection. Returns the call, in an object. */
  async function cutOff(begin) {
    proxy.lingering = true
    proxy.setDelay(DELAY, 'toServer')
    const sent = proxy.arrival('toServer')
    const call = begin()
    await sent
    proxy.cut()
    return { call }
  }

  /** The next connection is as fast as ever: what follows overtakes what is on its way. */
  async function reconnect() {
    proxy.setDelay(0)
    const other = store.createLocks(manager)
    await other.withLock(store.newKey(), () => {})
    // On a busy machine one that was begun while the network was slow may be given up first.
    expect(other.stats().reconnects).toBeGreaterThanOrEqual(1)
    expect(await exists()).toBe(false)
  }

  /** Waits for the lock in a thread of its own. Returns what ends the thread. */
  async function acquireInThread(wanted) {
    const workerData = { manager, call: 'acquire', wanted }
    const thread = new Worker(path.join(__dirname, 'workers', 'one-call.js'), { workerData })
    await once(thread, 'message')
    return thread
  }

  const kinds = {
    'one key': (ttl) => [key, { ttl }],
    'several keys': (ttl) => [[`${key}:a`, `${key}:b`], { ttl }],
    'an owner': (ttl) => [key, { ttl, owner: 'somebody' }],
  }

  const endings = {
    'its abort': async (keys, options) => {
      const controller = new AbortController()
      const { call } = await cutOff(() => locks.acquire(keys, { ...options, signal: controller.signal }))
      controller.abort('no more')
      await expect(call).rejects.toBe('no more')
    },
    'its time-out': async (keys, options) => {
      const { call } = await cutOff(() => locks.acquire(keys, { ...options, timeout: 50 }))
      await expect(call).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    },
    'close()': async (keys, options) => {
      const { call } = await cutOff(() => locks.acquire(keys, options))
      await Promise.all([locks.close(), expect(call).rejects.toMatchObject({ code: 'ERR_LOCK_CLOSED' })])
    },
    'the end of its thread': async (keys, options) => {
      const thread = await acquireInThread({ keys, options })
      await cutOff(() => thread.postMessage('go'))
      await thread.terminate()
    },
  }

  const cases = [
    ...Object.keys(endings).map((ending) => ['one key', ending]),
    ['several keys', 'its abort'],
    ['an owner', 'its abort'],
  ]

  test.each(cases)('%s, ended by %s: gone within a beat of the delivery', async (kind, ending) => {
    await endings[ending](...kinds[kind](LONG_TTL))
    await reconnect()
    await delivered()
    await expectGone(BEAT + SLACK)
  })

  test.each(Object.keys(kinds))('%s, got at a second attempt and released since: the same', async (kind) => {
    const { call } = await cutOff(() => locks.acquire(...kinds[kind](LONG_TTL)))
    proxy.setDelay(0)
    expect(await (await call).release()).toBe(true)
    expect(await exists()).toBe(false)
    await delivered()
    await expectGone(BEAT + SLACK)
  })

  test('whoever got the lock in the meantime is left alone', async () => {
    await endings['its abort'](key, { ttl: LONG_TTL })
    await reconnect()
    const lock = await store.elsewhere(key).locks.acquire(key)
    // One connection for commands and one for what the server says are left.
    await until('it is delivered', () => proxy.pairs.size === 2)
    expect(lock.held).toBe(true)
    expect(await lock.release()).toBe(true)
    // What is late may have queued behind it: then it is granted, told that it is, and gives it back.
    await expectGone(BEAT + SLACK)
  })

  test('after more than its ttl: it lives for its ttl and no longer', async () => {
    const ttl = 500
    await endings['its abort'](key, { ttl })
    await reconnect()
    await delivered()
    await expectGone(ttl + 10 + SLACK)
  })

  test('a renaming by extend() that is late brings nothing back', async () => {
    const lock = await locks.acquire(key, { ttl: LONG_TTL })
    const { call } = await cutOff(() => lock.extend(LONG_TTL / 2))
    proxy.setDelay(0)
    // Whether it was set may be unknown; the lock is still held.
    await call.catch((error) => expect(error.code).toBe('ERR_LOCK_UNAVAILABLE'))
    expect(await lock.release()).toBe(true)
    // One connection for commands and one for what the server says are left.
    await until('it is delivered', () => proxy.pairs.size === 2)
    expect(await exists()).toBe(false)
  })
})
