'use strict'

// Locks that are held in an owner's name: by all calls with that name, in all processes, and by nobody else.

const { eachStore, onServer } = require('./support/stores')
const { monitor } = require('./support/monitor')
const { startProxy } = require('./support/proxy')
const { until } = require('./support/until')

eachStore((store) => {
  let locks, elsewhere, key
  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
    elsewhere = store.elsewhere(key)
  })
  const owner = 'job-42'

  test('calls of one owner hold it together, everybody else is excluded until the last gives it back', async () => {
    const first = await locks.acquire(key, { owner })
    const second = await elsewhere.locks.acquire(elsewhere.key, { owner })
    const third = await locks.acquire(key, { owner })
    expect([first, second, third].map((lock) => lock.holdCount)).toEqual([1, 2, 3])
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
    expect(new Set([first.token, second.token, third.token]).size).toBe(3)
    for (const [other, name] of [
      [locks, key],
      [elsewhere.locks, elsewhere.key],
    ]) {
      expect(await other.tryAcquire(name)).toBe(null)
      expect(await other.tryAcquire(name, { owner: 'job-43' })).toBe(null)
      expect(await other.tryAcquire([name, store.newKey()])).toBe(null)
    }
    expect(await second.release()).toBe(true)
    expect(await first.release()).toBe(true)
    expect(await first.release()).toBe(true)
    expect(await elsewhere.locks.tryAcquire(elsewhere.key)).toBe(null)
    const waiting = elsewhere.locks.acquire(elsewhere.key)
    expect(await third.release()).toBe(true)
    expect((await waiting).fencingToken).toBeGreaterThan(third.fencingToken)
    expect(await locks.tryAcquire(key, { owner })).toBe(null)
  })

  test('a holder that is lost stops counting, the others hold on', async () => {
    const short = await locks.acquire(key, { owner, ttl: 150, autoExtend: false })
    const long = await elsewhere.locks.acquire(elsewhere.key, { owner })
    await new Promise((resolve) => short.signal.addEventListener('abort', resolve))
    expect(short.signal.reason.reason).toBe('expired')
    expect(long.held).toBe(true)
    const again = await until('the other hold is over in the store', async () => {
      const lock = await locks.acquire(key, { owner })
      if (lock.holdCount === 2) return lock
      await lock.release()
      return undefined
    })
    expect(await locks.tryAcquire(key)).toBe(null)
    await Promise.all([again.release(), long.release()])
    expect(await locks.tryAcquire(key)).not.toBe(null)
  })

  test('each hold is renewed, extended and shortened by itself', async () => {
    const one = await locks.acquire(key, { owner, ttl: 200 })
    const two = await elsewhere.locks.acquire(elsewhere.key, { owner, ttl: 60_000 })
    await two.extend(200)
    await one.extend(5_000)
    const { renewals } = elsewhere.locks.stats()
    await until('it was renewed', () => elsewhere.locks.stats().renewals > renewals + 5)
    expect([one.held, two.held]).toEqual([true, true])
    expect(await two.release()).toBe(true)
    expect(one.remaining).toBeGreaterThan(500)
    expect(await one.release()).toBe(true)
    expect(await locks.tryAcquire(key)).not.toBe(null)
  })

  test('several keys, and a ticket that goes to another process', async () => {
    const lock = await locks.acquire([key, store.newKey()], { owner })
    const ticket = JSON.parse(JSON.stringify(await lock.detach()))
    expect(ticket).toMatchObject({ owner, keys: lock.keys, fencingToken: lock.fencingToken })
    const adopted = await locks.adopt(ticket)
    expect(adopted.fencingToken).toBe(lock.fencingToken)
    expect(await locks.tryAcquire(key)).toBe(null)
    expect(await adopted.release()).toBe(true)
    expect(await locks.tryAcquire(key)).not.toBe(null)
  })

  test('nested calls of the same owner are no deadlock, those of another one are', async () => {
    await locks.withLock(key, { owner }, async () => {
      const inner = await locks.acquire(key, { owner })
      expect(inner.holdCount).toBe(2)
      await inner.release()
      await expect(locks.acquire(key)).rejects.toMatchObject({ code: 'ERR_LOCK_DEADLOCK' })
    })
  })
})

onServer((store) => {
  test('the count stands in Redis, and nothing is left of it', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    const [one, two] = [await locks.acquire(key, { owner: 'me' }), await locks.acquire(key, { owner: 'me' })]
    expect(await store.server.command('GET', `lock:${key}`)).toBe('hf1.o.me')
    expect(await store.server.command('ZCARD', `lock:~h{0}lock:${key}`)).toBe(2)
    expect(await store.server.command('PTTL', `lock:~h{0}lock:${key}`)).toBeGreaterThan(9_000)
    await one.release()
    expect(await store.server.command('ZCARD', `lock:~h{0}lock:${key}`)).toBe(1)
    await two.release()
    expect(await store.server.command('EXISTS', `lock:${key}`, `lock:~h{0}lock:${key}`)).toBe(0)
  })

  test('P3: a command that is repeated because its answer was lost counts once', async () => {
    const proxy = await startProxy(store.server.port)
    const locks = store.createLocks({ url: proxy.url })
    await locks.ready()
    const key = store.newKey()
    const seen = await monitor(store.server)
    const executed = seen.next(`"lock:${key}"`)
    proxy.blackHole('toClient')
    const acquiring = locks.acquire(key, { owner: 'me', timeout: 20_000 })
    await executed
    await proxy.resume()
    const lock = await acquiring
    expect(lock.holdCount).toBe(1)
    expect(await store.server.command('ZCARD', `lock:~h{0}lock:${key}`)).toBe(1)
    await lock.release()
    expect(await store.server.command('EXISTS', `lock:${key}`)).toBe(0)
    seen.close()
  })

  test('a plain owner of the key excludes, and is excluded', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    await store.server.command('SET', `lock:${key}`, 'theirs', 'PX', '60000')
    expect(await locks.tryAcquire(key, { owner: 'me' })).toBe(null)
    await store.server.command('DEL', `lock:${key}`)
    const lock = await locks.acquire(key, { owner: 'me' })
    expect(await store.server.command('SET', `lock:${key}`, 'theirs', 'NX', 'PX', '60000')).toBe(null)
    await lock.release()
  })
})
