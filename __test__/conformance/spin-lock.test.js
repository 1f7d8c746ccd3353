'use strict'

// What Redisson's SpinLock promises, for every way of waiting that there is here: it asks again and again, at intervals
// that a policy sets, and nothing needs to be published.

const { monitor } = require('../support/monitor')
const { eachStore, onServer } = require('../support/stores')
const { until } = require('../support/until')

// `within`: the longest pause that may have begun before a release after 300 ms, ms.
const strategies = [
  ['adaptive', 'adaptive', 130],
  ['fixed', 'fixed', 100],
  ['spin', 'spin', 5],
  ['backoff', 'backoff', 260],
  ['hybrid', 'hybrid', 130],
  ['spin-subscribe', 'spin-subscribe', 100],
  ['exponential, as by default there', { type: 'poll', interval: 1, factor: 2, cap: 128 }, 128],
  ['constant, as by default there', { type: 'poll', interval: 64 }, 64],
]
/** For a busy machine, ms. */
const SLACK = 150

eachStore((store) => {
  let locks
  let other
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
    other = store.elsewhere(key)
  })

  describe.each(strategies)('%s', (_, strategy, within) => {
    test('waits for as long as it was told, and then says so', async () => {
      await other.locks.acquire(other.key)
      const from = performance.now()
      const error = await locks.acquire(key, { strategy, timeout: 500 }).catch((reason) => reason)
      const ms = performance.now() - from
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', phase: 'spinning' })
      expect(error.attempts).toBeGreaterThan(1)
      expect(ms).toBeGreaterThanOrEqual(495)
      expect(ms).toBeLessThan(850)
    })

    test('is pending while the lock is held, and has it soon after the release', async () => {
      const lock = await other.locks.acquire(other.key)
      let granted
      const waiting = locks.acquire(key, { strategy }).then((mine) => {
        granted = performance.now()
        return mine
      })
      await new Promise((resolve) => setTimeout(resolve, 300))
      expect(granted).toBe(undefined)
      await lock.release()
      const released = performance.now()
      expect((await waiting).held).toBe(true)
      expect(granted - released).toBeLessThan(within + SLACK)
    })

    test('has a lock whose lease ran out soon, and never before', async () => {
      const from = performance.now()
      const first = await other.locks.acquire(other.key, { ttl: 500, autoExtend: false })
      await locks.acquire(key, { strategy })
      const ms = performance.now() - from
      expect(first.held).toBe(false)
      // For its holder a lease is over a little early, 1 % and 2 ms, since clocks differ; its core gives the key back then.
      expect(ms).toBeGreaterThanOrEqual(492)
      // A pause doesn't outlast the lease, however long the policy makes it.
      expect(ms).toBeLessThan(510 + 100 + SLACK)
    })

    test('lets callers of several processes take turns, never two at a time', async () => {
      let holding = 0
      let turns = 0
      const caller = async (manager, name) => {
        for (let i = 0; i < 5; i++) {
          const lock = await manager.acquire(name, { strategy, timeout: 20_000 })
          holding += 1
          expect(holding).toBe(1)
          turns += 1
          await new Promise((resolve) => setTimeout(resolve, 2))
          holding -= 1
          await lock.release()
        }
      }
      const callers = Array.from({ length: 8 }, (_, i) =>
        i % 2 ? caller(locks, key) : caller(other.locks, other.key),
      )
      await Promise.all(callers)
      expect(turns).toBe(40)
    })
  })
})

onServer((store) => {
  /** The pauses between attempts to take a key that stays taken, ms, as the server saw them. */
  async function pausesOf(strategy, count) {
    const locks = store.createLocks()
    const key = store.newKey()
    await locks.ready()
    await store.server.command('SET', `lock:${key}`, 'somebody')
    const seen = await monitor(store.server)
    const controller = new AbortController()
    const waiting = locks.acquire(key, { strategy, signal: controller.signal }).catch(() => {})
    const times = () =>
      seen
        .requests()
        .filter((line) => line.includes(`lock:${key}`))
        .map((line) => Number(line.split(' ', 1)[0]) * 1e3)
    await until(`${count + 1} attempts`, () => times().length > count)
    controller.abort()
    await waiting
    seen.close()
    return times()
      .slice(1, count + 1)
      .map((time, i) => time - times()[i])
  }

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)

  test.each([
    ['grow by a factor up to a cap', { interval: 10, factor: 3, cap: 100 }, [10, 30, 90, 100, 100]],
    ['stay the same', { interval: 30 }, Array(10).fill(30)],
  ])('pauses %s', async (_, policy, expected) => {
    const pauses = await pausesOf({ type: 'poll', ...policy }, expected.length)
    for (const [i, pause] of pauses.entries()) expect(pause).toBeGreaterThan(expected[i] - 2)
    // What is more is the way there and back, and a busy machine.
    expect(sum(pauses)).toBeLessThan(sum(expected) + 10 * expected.length + SLACK)
  })

  test('pauses are spread at random where that is wanted, at the cap as well', async () => {
    const pauses = await pausesOf({ type: 'poll', interval: 60, cap: 60, jitter: [0.5, 1] }, 12)
    expect(Math.min(...pauses)).toBeGreaterThan(28)
    expect(sum(pauses)).toBeLessThan(12 * 60 + 120 + SLACK)
    const [least, , , , , , , , , , , most] = pauses.toSorted((a, b) => a - b)
    expect(most - least).toBeGreaterThan(6)
  })

  test('attempts can be limited: then the caller gives up, though it would have time left', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await store.server.command('SET', `lock:${key}`, 'somebody')
    const strategy = { type: 'poll', interval: 5, maxAttempts: 4 }
    const from = performance.now()
    await expect(locks.acquire(key, { strategy })).rejects.toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
      attempts: 4,
      holder: 'somebody',
    })
    expect(performance.now() - from).toBeLessThan(1_000)
  })
})
