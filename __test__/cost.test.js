'use strict'

// What a call costs, in requests as the server sees them.

const { monitor } = require('./support/monitor')
const { onServer } = require('./support/stores')

onServer((store) => {
  async function requestsDuring(work) {
    const seen = await monitor(store.server)
    await work()
    await seen.flush()
    seen.close()
    return seen.requests()
  }

  test('a free lock costs two requests: one to take it, one to give it back', async () => {
    const locks = store.createLocks()
    await locks.withLock(store.newKey(), () => {})
    const before = locks.stats().commands
    const requests = await requestsDuring(async () => {
      for (let i = 0; i < 50; i++) await locks.withLock(store.newKey(), () => {})
    })
    // A few more are allowed for what the connection does for itself now and then.
    expect(requests.length).toBeGreaterThanOrEqual(100)
    expect(requests.length).toBeLessThanOrEqual(103)
    expect(Math.abs(locks.stats().commands - before - requests.length)).toBeLessThanOrEqual(3)
  })

  test('a lock that is handed on inside the process costs less than one request a turn', async () => {
    const locks = store.createLocks()
    await locks.ready()
    const key = store.newKey()
    const callers = () => Promise.all(Array.from({ length: 100 }, () => locks.withLock(key, () => {})))
    expect((await requestsDuring(callers)).length).toBeLessThan(100)
    expect(locks.stats()).toMatchObject({ acquired: 100, released: 100 })
    expect(locks.stats().handedOn).toBeGreaterThan(50)
  })

  test('asking for a lock that this process holds costs nothing, and waiting for it next to nothing', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await locks.acquire(key)
    const asking = await requestsDuring(async () => expect(await locks.tryAcquire(key)).toBe(null))
    expect(asking.filter((line) => line.includes(key))).toEqual([])
    const waiting = await requestsDuring(() =>
      Promise.allSettled(Array.from({ length: 20 }, () => locks.acquire(key, { timeout: 50 }))),
    )
    // Numbers for those who wait may be reserved, once.
    expect(waiting.filter((line) => line.includes(key)).length).toBeLessThanOrEqual(1)
  })
})
