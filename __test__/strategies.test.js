'use strict'

// How a process waits for another one: by names, by the one object, one attempt for all of its callers.

const { monitor } = require('./support/monitor')
const { eachStore, onServer } = require('./support/stores')

const NAMES = ['handoff', 'adaptive', 'fixed', 'spin', 'backoff', 'hybrid', 'spin-subscribe']
const took = async (promise) => {
  const start = performance.now()
  const outcome = await promise.catch((error) => error)
  return { outcome, time: performance.now() - start }
}

eachStore((store) => {
  let locks, key, elsewhere, theirs
  beforeEach(async () => {
    locks = store.createLocks()
    key = store.newKey()
    elsewhere = store.elsewhere(key)
    theirs = await elsewhere.locks.acquire(elsewhere.key, { ttl: 60_000 })
  })

  test.each(NAMES)('%s gets the lock when it is free', async (strategy) => {
    const waiting = locks.acquire(key, { strategy })
    const manager = store.createLocks({ strategy, ttl: 20_000 })
    const another = manager.acquire(key)
    await new Promise((resolve) => setTimeout(resolve, 30))
    await theirs.release()
    const lock = await waiting
    expect(lock.fencingToken).toBeGreaterThan(theirs.fencingToken)
    await lock.release()
    await (await another).release()
    const { acquired, atOnce, polled, fromQueue } = locks.stats()
    // Those that poll are told as well, and may have asked before they heard.
    expect({ acquired, atOnce, granted: polled + fromQueue }).toEqual({ acquired: 1, atOnce: 0, granted: 1 })
    if (strategy === 'handoff') expect(fromQueue).toBe(1)
  })

  test('retryTimes and retryDelay: maxAttempts and interval, the first attempt included, then it fails', async () => {
    const strategy = { type: 'poll', interval: 60, maxAttempts: 4 }
    const { outcome, time } = await took(locks.acquire(key, { strategy }))
    expect(outcome).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', attempts: 4, phase: 'spinning' })
    expect(time).toBeGreaterThanOrEqual(180)
    expect(time).toBeLessThan(1_800)
    expect(locks.stats()).toMatchObject({ timeouts: 1, waiting: 0 })
  })

  test('maxDuration: then it fails, although there would be time left', async () => {
    const strategy = { type: 'poll', interval: 10, maxDuration: 100 }
    const { outcome, time } = await took(locks.acquire(key, { strategy, timeout: Infinity }))
    expect(outcome).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', phase: 'spinning' })
    expect(time).toBeGreaterThanOrEqual(99)
    expect(time).toBeLessThan(1_000)
  })

  test('callers behind others of their process give up when as much time is over', async () => {
    const mine = store.newKey()
    await locks.acquire(mine)
    const strategy = { type: 'poll', interval: 20, maxAttempts: 5 }
    const { outcome, time } = await took(locks.acquire(mine, { strategy }))
    expect(outcome).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', phase: 'queued', attempts: 0 })
    expect(time).toBeGreaterThanOrEqual(99)
    expect(time).toBeLessThan(1_000)
  })

  test('timeout comes first if it is shorter', async () => {
    const strategy = { type: 'poll', interval: 10, maxAttempts: 1_000 }
    const { outcome } = await took(locks.acquire(key, { strategy, timeout: 50 }))
    expect(outcome).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' })
    expect(outcome.attempts).toBeLessThan(20)
  })

  test('interval 0 asks as fast as it is answered; then goes on to what follows', async () => {
    const then = { type: 'poll', interval: 50, maxAttempts: 2 }
    const strategy = { type: 'poll', interval: 0, maxAttempts: 100, then }
    const { outcome, time } = await took(locks.acquire(key, { strategy }))
    expect(outcome).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', attempts: 102 })
    expect(time).toBeGreaterThanOrEqual(100)
    expect(locks.stats()).toMatchObject({ leftSpinning: 1, wonSpinning: 0 })
  })

  test('a spinner that wins is counted as one', async () => {
    const waiting = locks.acquire(key, { strategy: 'spin' })
    await new Promise((resolve) => setTimeout(resolve, 20))
    await theirs.release()
    await waiting
    expect(locks.stats()).toMatchObject({ wonSpinning: 1, leftSpinning: 0 })
  })

  test('each caller waits by its own strategy, one after the other', async () => {
    const impatient = { type: 'poll', interval: 20, maxAttempts: 2 }
    const waiting = [
      took(locks.acquire(key, { strategy: impatient })),
      took(locks.acquire(key, { strategy: 'backoff' })),
      took(locks.acquire(key, { strategy: { ...impatient, maxAttempts: 10 } })),
    ]
    expect((await waiting[0]).outcome.code).toBe('ERR_LOCK_TIMEOUT')
    expect((await waiting[2]).outcome.code).toBe('ERR_LOCK_TIMEOUT')
    await theirs.release()
    expect((await waiting[1]).outcome.held).toBe(true)
  })

  test('adaptive goes by the hold times of the last turns, and says so', async () => {
    await theirs.release()
    const choices = []
    locks.on('adapted', (choice) => choices.push(choice))
    // Both want it all the time, and each holds it for a moment only.
    const caller = async (manager, name) => {
      for (let turn = 0; turn < 15; turn++)
        await (await manager.acquire(name, { strategy: 'adaptive' })).release()
    }
    const compete = () => Promise.all([caller(locks, key), caller(elsewhere.locks, elsewhere.key)])
    for (let round = 0; round < 100 && choices.length === 0; round++) {
      // Handed over in small pieces, so that both wait for each other.
      const holder = await elsewhere.locks.acquire(elsewhere.key)
      const waiting = locks.acquire(key, { strategy: 'adaptive' })
      await new Promise((resolve) => setTimeout(resolve, 5))
      await holder.release()
      await (await waiting).release()
      await compete()
    }
    expect(choices[0]).toMatchObject({ key, strategy: 'spin' })
    expect(choices[0].p99).toBeLessThan(50)
    expect(locks.stats().adaptive.spin).toBeGreaterThan(0)
    expect(locks.stats().adaptive.hybrid).toBeGreaterThan(0)
  })
})

onServer((store) => {
  test('one attempt per process, not per waiter', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await store.server.command('SET', `lock:${key}`, 'theirs')
    const strategy = { type: 'poll', interval: 20, maxAttempts: 5 }
    await locks.ready()
    const before = locks.stats().commands
    const waiting = Array.from({ length: 50 }, () => locks.acquire(key, { strategy: { ...strategy } }))
    const outcomes = await Promise.allSettled(waiting)
    expect(outcomes.every(({ reason }) => reason.code === 'ERR_LOCK_TIMEOUT')).toBe(true)
    // Five attempts of the first in line; those behind it ask once at most before their time is over, too.
    expect(locks.stats().commands - before).toBeLessThanOrEqual(15)
  })

  test('a poll sleeps no longer than the holder lasts', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await store.server.command('SET', `lock:${key}`, 'theirs', 'PX', '150')
    const strategy = { type: 'poll', interval: 20_000, cap: 20_000 }
    const { outcome, time } = await took(locks.acquire(key, { strategy, timeout: 15_000 }))
    expect(outcome.held).toBe(true)
    expect(time).toBeLessThan(5_000)
  })

  test('waiting by a long interval leaves the server alone', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await store.server.command('SET', `lock:${key}`, 'theirs')
    await locks.ready()
    const seen = await monitor(store.server)
    await took(locks.acquire(key, { strategy: { type: 'poll', interval: 60_000 }, timeout: 300 }))
    await seen.flush()
    expect(seen.requests().filter((line) => line.includes('EVALSHA'))).toHaveLength(1)
    seen.close()
  })
})
