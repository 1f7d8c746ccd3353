'use strict'

// Who comes next, and the number that says so.

const { setTimeout: sleep } = require('node:timers/promises')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

const risesStrictly = (fences) =>
  fences.every((fence, i) => Number.isSafeInteger(fence) && (i === 0 || fence > fences[i - 1]))

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  const fenceOf = async (manager, name, options) => {
    const lock = await manager.acquire(name, options)
    await lock.release()
    return lock.fencingToken
  }

  test('P7 order: callers of one process are served first come, first served', async () => {
    const first = await locks.acquire(key)
    const served = []
    const callers = Array.from({ length: 40 }, async (_, i) => {
      const lock = await locks.acquire(key)
      served.push(i)
      if (i % 3 === 0) await sleep(1)
      await lock.release()
    })
    await first.release()
    await Promise.all(callers)
    expect(served).toEqual(Array.from({ length: 40 }, (_, i) => i))
  })

  test('P7 order: managers with equal options stand in one line', async () => {
    const second = store.createLocks()
    const first = await locks.acquire(key)
    const served = []
    const callers = Array.from({ length: 20 }, async (_, i) => {
      const lock = await (i % 2 ? locks : second).acquire(key)
      served.push(i)
      await lock.release()
    })
    await first.release()
    await Promise.all(callers)
    expect(served).toEqual(Array.from({ length: 20 }, (_, i) => i))
  })

  test('P7 order: one who gave up, or was called off, is passed over', async () => {
    const first = await locks.acquire(key)
    const controller = new AbortController()
    const served = []
    const caller = (name, options) =>
      locks.acquire(key, options).then(
        (lock) => served.push(name) && lock.release(),
        () => {},
      )
    const line = [
      caller('a', { signal: controller.signal }),
      caller('b'),
      caller('c', { timeout: 20 }),
      caller('d'),
      caller('e', { signal: controller.signal }),
      caller('f'),
    ]
    await line[2]
    controller.abort()
    await first.release()
    await Promise.all(line)
    expect(served).toEqual(['b', 'd', 'f'])
  })

  test('P7 order: 10 000 callers of one key are all served, in order', async () => {
    let served = 0
    let inOrder = true
    const callers = Array.from({ length: 10_000 }, async (_, i) => {
      const lock = await locks.acquire(key, { timeout: 25_000 })
      inOrder &&= served++ === i
      await lock.release()
    })
    await Promise.all(callers)
    expect(served).toBe(10_000)
    expect(inOrder).toBe(true)
  })

  test('handing on leaves the event loop its turn: a short timer fires while a crowd is served', async () => {
    let serving = true
    let ticks = 0
    const crowd = Promise.all(
      Array.from({ length: 20_000 }, () => locks.withLock(key, { timeout: 25_000 }, () => {})),
    )
    const ticking = (async () => {
      while (serving) {
        await sleep(1)
        ticks++
      }
    })()
    await crowd
    serving = false
    await ticking
    expect(ticks).toBeGreaterThan(5)
  })

  test('P6 fencing: every acquisition has a greater number, in one core and across cores', async () => {
    const other = store.elsewhere(key)
    const fences = []
    for (let i = 0; i < 30; i++) {
      fences.push(await fenceOf(locks, key))
      fences.push(await fenceOf(other.locks, other.key))
      const crowd = await Promise.all(Array.from({ length: 20 }, () => fenceOf(locks, key)))
      fences.push(...crowd)
    }
    expect(risesStrictly(fences)).toBe(true)
  })

  test('P6 fencing: a lease that ran out is followed by a greater number', async () => {
    const lost = await locks.acquire(key, { ttl: 100, autoExtend: false })
    const other = store.elsewhere(key)
    const next = await other.locks.acquire(other.key)
    expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
  })
})

onServer((store) => {
  let key

  beforeEach(() => {
    key = store.newKey()
  })

  const next = async (manager, name) => {
    const lock = await manager.acquire(name)
    await lock.release()
    return lock.fencingToken
  }

  test('P6 fencing: numbers rise across FLUSHALL, in cores that saw it happen and in new ones', async () => {
    const locks = store.createLocks()
    const other = store.elsewhere(key)
    const fences = []
    for (let i = 0; i < 10; i++) {
      fences.push(await next(locks, key))
      fences.push(await next(other.locks, other.key))
      await store.server.command('FLUSHALL')
      if (i % 2) fences.push(await next(other.locks, other.key))
      fences.push(await next(locks, key))
    }
    expect(risesStrictly(fences)).toBe(true)
  })

  test('P6 fencing: numbers rise across FLUSHALL while a crowd holds the key by turns', async () => {
    const locks = store.createLocks()
    const fences = []
    const crowd = Array.from({ length: 2_000 }, () =>
      locks.acquire(key, { timeout: 20_000 }).then((lock) => {
        fences.push(lock.fencingToken)
        return lock.release()
      }),
    )
    const flushes = (async () => {
      while (fences.length < 1_900) {
        await store.server.command('FLUSHALL')
        await sleep(1)
      }
    })()
    await Promise.all([...crowd, flushes])
    expect(fences).toHaveLength(2_000)
    expect(risesStrictly(fences)).toBe(true)
  })

  test('P6 fencing: numbers rise across the loss of every key but the lock', async () => {
    const locks = store.createLocks()
    const fences = [await next(locks, key)]
    const counters = await store.server.command('KEYS', '*')
    expect(counters.length).toBeGreaterThan(0)
    await store.server.command('DEL', ...counters)
    fences.push(await next(locks, key))
    expect(risesStrictly(fences)).toBe(true)
  })

  test('P6 fencing: numbers rise across a restart of a server that keeps nothing', async () => {
    const locks = store.createLocks()
    const fences = []
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 5; j++) fences.push(await next(locks, key))
      await store.server.restart()
      // The manager finds the new server by itself.
      await until('the server is used again', () => locks.ready().then(() => true))
    }
    fences.push(await next(locks, key))
    expect(risesStrictly(fences)).toBe(true)
  })
})
