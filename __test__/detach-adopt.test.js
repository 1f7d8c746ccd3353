'use strict'

// Tickets: a lock that one process lets go of without releasing it, and another one takes up.

const { setTimeout: sleep } = require('node:timers/promises')
const { Lock, LockLostError } = require('..')
const { monitor } = require('./support/monitor')
const { startWorker } = require('./support/processes')
const { startProxy } = require('./support/proxy')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

// What a busy machine may add.
const SLACK = 600
const LONG_TTL = 600_000

const taken = (key) => ({ code: 'ERR_LOCK_LOST', reason: 'taken', key })
const settled = (promise) => promise.catch((error) => error)

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  const rivals = () => [locks, store.createLocks(), ...(store.server ? [store.elsewhere(key).locks] : [])]
  const isTaken = async () =>
    (await Promise.all(rivals().map((rival) => rival.tryAcquire(key)))).every((lock) => lock === null)

  describe('detach', () => {
    test('lets go without releasing, and makes a ticket of plain data', async () => {
      const lost = jest.fn()
      locks.on('lost', lost)
      const lock = await locks.acquire(key, { ttl: 5_000 })
      const { token, signal } = lock
      const ticket = await lock.detach()
      expect(ticket).toEqual({
        keys: [key],
        token: expect.any(String),
        fencingToken: lock.fencingToken,
        ttl: 5_000,
      })
      expect(JSON.parse(JSON.stringify(ticket))).toEqual(ticket)
      expect(ticket.token).not.toBe(token)
      expect(lock).toMatchObject({ held: false, remaining: 0, holdCount: 0 })
      expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ reason: 'released' }))
      for (const call of [lock.extend(), lock.detach()])
        await expect(call).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'released' })
      expect(await lock.release()).toBe(false)
      expect(signal.aborted).toBe(false)
      expect(lost).not.toHaveBeenCalled()
      expect(locks.stats()).toMatchObject({ held: 0, waiting: 0, lost: 0 })
      expect(await isTaken()).toBe(true)
    })

    test('the key stays taken for the time that was said, not renewed', async () => {
      const lock = await locks.acquire(key, { ttl: 5_000 })
      const from = performance.now()
      const ticket = await lock.detach(500)
      expect(ticket.ttl).toBe(500)
      const next = await rivals().at(-1).acquire(key)
      const ms = performance.now() - from
      expect(ms).toBeGreaterThanOrEqual(500)
      expect(ms).toBeLessThan(500 + SLACK)
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken)
    })

    test('of a lock that is lost or released rejects', async () => {
      const short = await locks.acquire(key, { ttl: 100, autoExtend: false })
      await until('it is lost', () => !short.held)
      await expect(short.detach()).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'expired' })
      const lock = await locks.acquire(key)
      await lock.release()
      await expect(lock.detach()).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'released' })
    })

    test('outlives its manager', async () => {
      const manager = store.createLocks()
      const ticket = await (await manager.acquire(key)).detach()
      await manager.close()
      const adopted = await locks.adopt(ticket)
      expect(await adopted.release()).toBe(true)
    })

    test('those who wait in the same process go on waiting, in order, until it is released elsewhere', async () => {
      const lock = await locks.acquire(key)
      const served = []
      const line = [0, 1, 2].map(async (i) => {
        const next = await locks.acquire(key)
        served.push(i)
        await next.release()
      })
      const ticket = await lock.detach()
      await sleep(100)
      expect(served).toEqual([])
      expect(locks.stats().waiting).toBe(3)
      const adopted = await rivals().at(-1).adopt(ticket)
      await sleep(100)
      expect(served).toEqual([])
      expect(await adopted.release()).toBe(true)
      await Promise.all(line)
      expect(served).toEqual([0, 1, 2])
    })

    test('within withLock: the function’s value comes back, and the lock stays with the ticket', async () => {
      let ticket
      const value = await locks.withLock(key, async (lock) => {
        ticket = await lock.detach()
        return 'value'
      })
      expect(value).toBe('value')
      expect(await isTaken()).toBe(true)
      expect(await (await locks.adopt(ticket)).release()).toBe(true)
    })

    test('racing release or extend settles, and the lock is either given back or with the ticket', async () => {
      let tickets = 0
      for (let round = 0; round < 60; round++) {
        const lock = await locks.acquire(key, { timeout: 3_000 })
        const other = () => (round % 2 ? lock.release() : lock.extend(round % 4 ? 20_000 : 5_000))
        const calls = round % 3 ? [lock.detach(), other()] : [other(), lock.detach()].reverse()
        const [ticket] = await Promise.all(calls.map(settled))
        if (ticket instanceof Error) expect(ticket.code).toBe('ERR_LOCK_LOST')
        else tickets++
        const adopted = ticket instanceof Error ? null : await settled(locks.adopt(ticket))
        if (adopted instanceof Lock) expect(await adopted.release()).toBe(true)
        else await settled(lock.release())
        // Not left to its ttl.
        expect((await locks.acquire(key, { timeout: 1_000 }).then((next) => next.release())) ?? false).toBe(
          true,
        )
      }
      expect(tickets).toBeGreaterThan(0)
    })
  })

  describe('adopt', () => {
    test('turns a ticket into a lock, anywhere: the same fencing token, held and renewed from now on', async () => {
      for (const adopter of rivals()) {
        const lock = await locks.acquire(key, { ttl: 600 })
        const ticket = JSON.parse(JSON.stringify(await lock.detach()))
        await sleep(350)
        const adopted = await adopter.adopt(ticket)
        expect(adopted).toBeInstanceOf(Lock)
        expect(adopted).toMatchObject({ key, keys: [key], held: true, fencingToken: lock.fencingToken })
        expect(adopted.token).not.toBe(lock.token)
        expect(adopted.remaining).toBeGreaterThan(300)
        expect(adopted.remaining).toBeLessThanOrEqual(600)
        await sleep(700)
        expect(adopted.held).toBe(true)
        expect(await isTaken()).toBe(true)
        await adopted.extend(1_000)
        expect(await adopted.release()).toBe(true)
        const next = await locks.acquire(key)
        expect(next.fencingToken).toBeGreaterThan(lock.fencingToken)
        await next.release()
      }
    })

    test('works once', async () => {
      const ticket = await (await locks.acquire(key)).detach()
      const adopted = await locks.adopt(ticket)
      for (const rival of rivals()) {
        const error = await settled(rival.adopt(ticket))
        expect(error).toBeInstanceOf(LockLostError)
        expect(error).toMatchObject(taken(key))
      }
      expect(adopted.held).toBe(true)
      expect(await adopted.release()).toBe(true)
      await expect(locks.adopt(ticket)).rejects.toMatchObject(taken(key))
      expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
    })

    test('of many at once, one wins', async () => {
      const managers = rivals()
      for (let round = 0; round < 20; round++) {
        const ticket = await (await locks.acquire(key)).detach()
        const attempts = Array.from({ length: 15 }, (_, i) =>
          settled(managers[i % managers.length].adopt(ticket)),
        )
        const outcomes = await Promise.all(attempts)
        const won = outcomes.filter((outcome) => outcome instanceof Lock)
        expect(won).toHaveLength(1)
        for (const outcome of outcomes) if (outcome !== won[0]) expect(outcome).toMatchObject(taken(key))
        expect(await won[0].release()).toBe(true)
      }
    })

    test('comes too late after the time of the ticket, whoever has the lock then', async () => {
      const ticket = await (await locks.acquire(key)).detach(100)
      const next = await rivals().at(-1).acquire(key)
      await expect(locks.adopt(ticket)).rejects.toMatchObject(taken(key))
      expect(next.held).toBe(true)
      expect(await next.release()).toBe(true)
      await expect(locks.adopt(ticket)).rejects.toMatchObject(taken(key))
      expect((await locks.acquire(key, { timeout: 0 })).held).toBe(true)
    })

    test("with options of its own, else the ticket's ttl and the manager's defaults", async () => {
      const passive = store.createLocks({ autoExtend: false })
      const tickets = async () => (await locks.acquire(key, { ttl: 300 })).detach()
      const short = await locks.adopt(await tickets(), { ttl: 150, autoExtend: false })
      expect(short.remaining).toBeLessThanOrEqual(150)
      await until('it is lost', () => !short.held, { within: 1_000 })
      const long = await locks.adopt(await tickets(), { ttl: 60_000 })
      expect(long.remaining).toBeGreaterThan(50_000)
      await long.release()
      const unrenewed = await passive.adopt(await tickets())
      await until('it is lost', () => !unrenewed.held, { within: 1_000 })
    })

    test('of several keys: all of them', async () => {
      const keys = [`${key}:b`, `${key}:a`]
      const lock = await locks.acquire(keys)
      const ticket = JSON.parse(JSON.stringify(await lock.detach()))
      expect(ticket.keys).toEqual(keys)
      const adopted = await rivals().at(-1).adopt(ticket)
      expect(adopted).toMatchObject({ keys, fencingToken: lock.fencingToken })
      for (const each of keys) expect(await locks.tryAcquire(each)).toBe(null)
      expect(await adopted.release()).toBe(true)
      for (const each of keys) expect((await locks.tryAcquire(each)).held).toBe(true)
    })

    test('again and again, by the same and by others, keeps the number', async () => {
      const managers = rivals()
      let lock = await locks.acquire(key)
      const { fencingToken } = lock
      for (let i = 0; i < 50; i++) lock = await managers[i % managers.length].adopt(await lock.detach())
      expect(lock.fencingToken).toBe(fencingToken)
      expect(await isTaken()).toBe(true)
      expect(await lock.release()).toBe(true)
      expect(await isTaken()).toBe(false)
    })

    test('the lock is lost like any other: by its manager’s end', async () => {
      const manager = store.createLocks()
      const adopted = await manager.adopt(await (await locks.acquire(key)).detach())
      await manager.close()
      expect(adopted.signal.reason).toMatchObject({ reason: 'closed', key })
      expect((await locks.acquire(key, { timeout: 1_000 })).held).toBe(true)
    })
  })
})

onServer((store) => {
  let key

  beforeEach(() => {
    key = store.newKey()
  })

  test('detach and adopt cost one request each', async () => {
    const [locks, other] = [store.createLocks(), store.elsewhere(key).locks]
    const lock = await locks.acquire(key)
    await other.ready()
    const seen = await monitor(store.server)
    await other.adopt(await lock.detach())
    await seen.flush()
    seen.close()
    expect(seen.requests().filter((line) => line.includes(`"lock:${key}"`))).toHaveLength(2)
  })

  test('nobody gets in between, however the lock travels between processes', async () => {
    await store.server.command('SET', 'laps', 0)
    const settings = { url: store.url, port: store.server.port, key, ttl: 10_000 }
    const runners = Array.from({ length: 3 }, () => startWorker('relay', settings))
    await Promise.all(runners.map((runner) => runner.next('ready')))
    const rival = startWorker('try-all-the-time', { url: store.url, key })
    runners[0].send({})
    let { ticket } = await runners[0].next('ticket')
    await rival.next('trying')
    const fences = new Set()
    for (let lap = 1; lap < 300; lap++) {
      const runner = runners[lap % 3]
      runner.send({ ticket })
      ticket = (await runner.next('ticket')).ticket
      fences.add(JSON.parse(ticket).fencingToken)
    }
    expect(Number(await store.server.command('GET', 'laps'))).toBe(300)
    expect(fences.size).toBe(1)
    // A process that detached its lock takes nothing along when it ends.
    for (const runner of runners) runner.send({ end: true })
    await Promise.all(runners.map((runner) => runner.ended))
    const adopted = await store.createLocks().adopt(JSON.parse(ticket))
    rival.send('report')
    const { tries, got } = await rival.next('report')
    expect(tries).toBeGreaterThan(10)
    expect(got).toBe(0)
    const gotIt = rival.next('got')
    expect(await adopted.release()).toBe(true)
    await gotIt
  })

  test('a process that is killed leaves what it detached to its ticket', async () => {
    const locks = store.createLocks()
    const worker = startWorker('relay', { url: store.url, port: store.server.port, key, ttl: LONG_TTL })
    await worker.next('ready')
    worker.send({ ticket: JSON.stringify(await (await locks.acquire(key)).detach()) })
    const { ticket } = await worker.next('ticket')
    await worker.kill()
    const adopted = await locks.adopt(JSON.parse(ticket))
    expect(await adopted.release()).toBe(true)
  })

  // When the connection breaks, and what the server has done by then.
  const points = [
    ['before the command is sent', ({ proxy }) => proxy.cut(), null],
    ['the command sent, not executed', ({ proxy }) => proxy.blackHole('toServer'), 'sent'],
    ['the command executed, not answered', ({ proxy }) => proxy.blackHole('toClient'), 'executed'],
    ['as the answer comes', () => {}, 'answered'],
  ]

  describe.each(['adopt', 'detach'])('%s, and the connection breaks', (call) => {
    test.each(points)('%s: it comes to what it would have come to', async (_, begin, moment) => {
      const proxy = await startProxy(store.server.port)
      const locks = store.createLocks({ url: proxy.url })
      const direct = store.createLocks()
      const seen = await monitor(store.server)
      await locks.ready()
      const first = await (call === 'adopt' ? direct : locks).acquire(key, { ttl: LONG_TTL })
      let ticket = call === 'adopt' ? await first.detach() : null
      begin({ proxy })
      const moments = {
        sent: proxy.arrival('toServer'),
        executed: seen.next(`"lock:${key}"`),
        answered: proxy.arrival('toClient'),
      }
      const calling = call === 'adopt' ? locks.adopt(ticket) : first.detach()
      if (moment) await moments[moment]
      await proxy.resume()
      proxy.cut()
      const outcome = await calling
      ticket ??= outcome
      const adopted = call === 'adopt' ? outcome : await direct.adopt(ticket)
      expect(adopted).toMatchObject({ held: true, fencingToken: first.fencingToken })
      await expect(direct.adopt(ticket)).rejects.toMatchObject(taken(key))
      expect(await direct.tryAcquire(key)).toBe(null)
      expect(await adopted.release()).toBe(true)
      expect(await store.server.command('EXISTS', `lock:${key}`)).toBe(0)
      seen.close()
    })
  })
})
