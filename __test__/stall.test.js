'use strict'

// maxStall: an event loop that doesn't turn any more must not keep its locks for ever, although they are renewed by another
// thread.

const { once } = require('node:events')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const { Worker } = require('node:worker_threads')
const { LockLostError } = require('..')
const { blockLoop } = require('./support/block-loop')
const { startWorker } = require('./support/processes')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

// The loop tells that it is alive four times in this time.
const MAX_STALL = 150
const TTL = 300
// Longer than a stall is tolerated, and the lease that was renewed last lives.
const FOR_GOOD = MAX_STALL + TTL + 350

const lossOf = (lock) => (lock.signal.aborted ? Promise.resolve() : once(lock.signal, 'abort'))
const aTurn = () => new Promise(setImmediate)

eachStore((store) => {
  let locks
  let key
  let stalled
  let lost
  const threads = []

  beforeEach(() => {
    locks = store.createLocks({ ttl: TTL, maxStall: MAX_STALL })
    key = store.newKey()
    stalled = jest.fn()
    lost = jest.fn()
    locks.on('stalled', stalled).on('lost', lost)
  })

  afterEach(() => Promise.all(threads.splice(0).map((thread) => thread.terminate())))

  /** Starts a thread that waits for the lock. Returns a promise of when it got it. */
  async function startRival() {
    const workerData = { url: store.url, key }
    const thread = new Worker(path.join(__dirname, 'workers', 'caller-in-thread.js'), { workerData })
    threads.push(thread)
    const got = new Promise((resolve) => {
      thread.on('message', (message) => 'granted' in message && resolve(message.at))
    })
    const asked = once(thread, 'message')
    thread.postMessage({ name: 'rival', keep: true })
    await asked
    return { got }
  }

  test("blocked for longer than maxStall and the lease: lost, reason 'stalled', and another gets it meanwhile", async () => {
    const lock = await locks.acquire(key)
    const rival = await startRival()
    const from = process.hrtime.bigint()
    blockLoop(FOR_GOOD)
    const to = process.hrtime.bigint()
    expect(lock.held).toBe(false)
    expect(lock.remaining).toBe(0)
    await lossOf(lock)
    const { reason } = lock.signal
    expect(reason).toBeInstanceOf(LockLostError)
    expect(reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'stalled', key })
    const got = await rival.got
    expect(got).toBeGreaterThan(from + BigInt(MAX_STALL) * 1_000_000n)
    expect(got).toBeLessThan(to)
    expect(await lock.release()).toBe(false)
    await aTurn()
    expect(lost.mock.calls).toEqual([[reason]])
    expect(stalled.mock.calls).toEqual([[{ keys: [key], silent: expect.any(Number) }]])
    const [[{ silent }]] = stalled.mock.calls
    expect(silent).toBeGreaterThan(MAX_STALL)
    expect(silent).toBeLessThan(FOR_GOOD)
    expect(locks.stats()).toMatchObject({ held: 0, lost: 1, losses: { stalled: 1 } })
  })

  test('blocked for longer than the lease, but not than maxStall: kept', async () => {
    const lock = await locks.acquire(key, { maxStall: 5_000 })
    const other = store.elsewhere(key)
    for (let i = 0; i < 2; i++) {
      blockLoop(2 * TTL)
      expect(lock.held).toBe(true)
      await aTurn()
      expect(await other.locks.tryAcquire(other.key)).toBe(null)
    }
    expect(stalled).not.toHaveBeenCalled()
    expect(await lock.release()).toBe(true)
  })

  test('blocked for longer than maxStall, and back before the lease is over: told, and kept', async () => {
    const ttl = 1_800
    const lock = await locks.acquire(key, { ttl })
    // Renewal is due after a third of the ttl.
    blockLoop(ttl / 3 + 200)
    expect(lock.held).toBe(true)
    await until('it is told', () => stalled.mock.calls.length > 0)
    expect(stalled).toHaveBeenCalledWith({ keys: [key], silent: expect.any(Number) })
    await until('it is renewed', () => lock.remaining > ttl - 300)
    await sleep(ttl)
    expect(lock.held).toBe(true)
    expect(stalled).toHaveBeenCalledTimes(1)
    expect(await lock.release()).toBe(true)
    expect(lost).not.toHaveBeenCalled()
  })

  test('a loop that turns and has nothing to do is alive', async () => {
    const lock = await locks.acquire(key, { maxStall: 500 })
    await sleep(1_500)
    expect(lock.held).toBe(true)
    expect(stalled).not.toHaveBeenCalled()
    expect(await lock.release()).toBe(true)
  })

  test('Infinity: a wedged loop keeps its lock', async () => {
    const lock = await locks.acquire(key, { maxStall: Number.POSITIVE_INFINITY })
    blockLoop(FOR_GOOD)
    expect(lock.held).toBe(true)
    await aTurn()
    expect(lock.signal.aborted).toBe(false)
    expect(stalled).not.toHaveBeenCalled()
  })

  test("each lock by its own: the call's, else the manager's, else 30 s", async () => {
    const patient = store.createLocks({ ttl: TTL })
    const [strict, other, dflt] = await Promise.all([
      locks.acquire(key),
      locks.acquire(store.newKey(), { maxStall: 10_000 }),
      patient.acquire(store.newKey()),
    ])
    blockLoop(FOR_GOOD)
    await aTurn()
    expect([strict, other, dflt].map((lock) => lock.held)).toEqual([false, true, true])
    await until('it is told', () => lost.mock.calls.length > 0)
    expect(lost.mock.calls).toEqual([[expect.objectContaining({ reason: 'stalled', key })]])
  })

  test.each([
    ['several keys', (name) => [[`${name}:a`, `${name}:b`], {}]],
    ['an owner', (name) => [name, { owner: 'somebody' }]],
  ])('locks of %s are lost as well', async (_, of) => {
    const [keys, options] = of(key)
    const lock = await locks.acquire(keys, options)
    blockLoop(FOR_GOOD)
    expect(lock.held).toBe(false)
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('stalled')
    await aTurn()
    expect(stalled).toHaveBeenCalledWith({ keys: [].concat(keys), silent: expect.any(Number) })
    expect((await locks.acquire(keys, { timeout: 1_000 })).held).toBe(true)
  })

  test('withLock tells of it, with what the function returned', async () => {
    const error = await locks
      .withLock(key, () => {
        blockLoop(FOR_GOOD)
        return 'result'
      })
      .catch((reason) => reason)
    expect(error).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'stalled', result: 'result' })
  })

  test('what is acquired after a stall lives as any other', async () => {
    await locks.acquire(key)
    blockLoop(FOR_GOOD)
    const next = await locks.acquire(key, { timeout: 1_000 })
    await sleep(3 * TTL)
    expect(next.held).toBe(true)
    expect(await next.release()).toBe(true)
  })

  test('one thread stalls: its locks alone are lost', async () => {
    const holder = `
      const { parentPort, workerData } = require('node:worker_threads')
      const { createLocks } = require(workerData.holdfast)
      const locks = createLocks({ url: workerData.url, ttl: ${TTL}, maxStall: ${MAX_STALL} })
      locks.acquire(workerData.key).then((lock) => {
        parentPort.postMessage('held')
        lock.signal.addEventListener('abort', () => parentPort.postMessage(lock.signal.reason.reason))
        parentPort.once('message', () => Atomics.wait(workerData.never, 0, 0, ${FOR_GOOD}))
      })`
    const never = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { holdfast: path.join(__dirname, '..'), url: store.url, key, never }
    const thread = new Worker(holder, { eval: true, workerData })
    threads.push(thread)
    await once(thread, 'message')
    const mine = await locks.acquire(store.newKey())
    thread.postMessage('stall')
    const next = await locks.acquire(key, { timeout: 3_000 })
    // In front of the thread's own news of it.
    const [reason] = await once(thread, 'message')
    expect(reason).toBe('stalled')
    expect([mine.held, next.held]).toEqual([true, true])
    expect(stalled).not.toHaveBeenCalled()
  })
})

onServer((store) => {
  test('a process whose loop is blocked loses its lock to another process', async () => {
    const key = store.newKey()
    const settings = { url: store.url, key, ttl: TTL, maxStall: MAX_STALL, blocked: FOR_GOOD }
    const holder = startWorker('block-while-holding', settings)
    await holder.next('held')
    const waiting = store.createLocks().acquire(key, { timeout: 10_000 })
    holder.send('block')
    await holder.next('blocking')
    const done = holder.next('done')
    const lock = await Promise.race([waiting, done])
    // It was ours before the other one had its next turn.
    expect(lock.held).toBe(true)
    expect(lock.type).not.toBe('done')
    expect(await done).toMatchObject({ held: false, remaining: 0, aborted: true })
    holder.send('release')
    expect(await holder.next('released')).toMatchObject({ answer: false })
    expect(lock.held).toBe(true)
  })

  test('a process that is stopped as a whole has lost its lock when it goes on', async () => {
    const key = store.newKey()
    const holder = startWorker('block-while-holding', { url: store.url, key, ttl: TTL, blocked: 0 })
    await holder.next('held')
    holder.child.kill('SIGSTOP')
    const lock = await store.createLocks().acquire(key, { timeout: 10_000 })
    holder.child.kill('SIGCONT')
    holder.send('look')
    expect(await holder.next('done')).toMatchObject({ held: false, remaining: 0, aborted: true })
    holder.send('release')
    expect(await holder.next('released')).toMatchObject({ answer: false })
    expect(lock.held).toBe(true)
    expect(await lock.release()).toBe(true)
  })
})
