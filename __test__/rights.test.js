'use strict'

// The rights that the README names are enough, for every kind of lock, and no more than that is asked for.

const { once } = require('node:events')
const fs = require('node:fs')
const path = require('node:path')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const readme = fs.readFileSync(path.join(__dirname, '..', 'README.md'), 'utf8')
const rule = readme
  .match(/^ACL SETUSER .*$/m)[0]
  .split(' ')
  .slice(3)
const ofOwners = readme.match(/^Locks with an `owner` need `(.*?)` as well/m)[1].split(' ')
const ofCaches = readme.match(/ and caches `(.*?)`/)[1].split(' ')

onServer((store) => {
  async function user(name, rights) {
    await store.server.command('ACL', 'SETUSER', name, 'reset', ...rights)
    const secret = rights.find((right) => right.startsWith('>')).slice(1)
    return store.createLocks({ username: name, password: secret })
  }

  test('locks of one key and of several: taken, waited for, extended, shortened, detached, given back', async () => {
    const locks = await user('plain', rule)
    for (const wanted of [store.newKey(), [store.newKey(), store.newKey()]]) {
      const lock = await locks.acquire(wanted, { ttl: 300 })
      const key = lock.keys[0]
      const waiting = store.createLocks().acquire(key, { strategy: 'spin' })
      await expect(locks.acquire(wanted, { timeout: 20 })).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' })
      await lock.extend(20_000)
      await lock.extend(5_000)
      const adopted = await locks.adopt(await lock.detach())
      expect(await adopted.release()).toBe(true)
      await (await waiting).release()
      expect(await (await locks.acquire(wanted, { minHold: 20 })).release()).toBe(true)
    }
  })

  test('processes hand the lock on by push, and look at the queue', async () => {
    const [mine, theirs] = [await user('first', rule), await user('second', rule)]
    const events = []
    for (const locks of [mine, theirs]) locks.on('fallback', (error) => events.push(error.message))
    await Promise.all([mine.ready(), theirs.ready()])
    const key = store.newKey()
    const holder = await theirs.acquire(key, { ttl: 500 })
    const waiting = mine.acquire(key, { ttl: 500 })
    // Longer than a look takes to come.
    await expect(mine.acquire(key, { timeout: 250 })).rejects.toMatchObject({ phase: 'queued' })
    await holder.release()
    await (await waiting).release()
    expect(mine.stats()).toMatchObject({ fromQueue: 1 })
    expect(events).toEqual([])
  })

  test('locks in an owner’s name need a few more, and say so', async () => {
    const key = store.newKey()
    const without = await user('plain', rule)
    const error = await without.acquire(key, { owner: 'me' }).catch((reason) => reason)
    expect(error.code).toBe('ERR_LOCK_UNAVAILABLE')
    expect(error.cause.message).toMatch(/can't run|permission/i)
    const locks = await user('owner', [...rule, ...ofOwners])
    const other = store.newKey()
    const [one, two] = [
      await locks.acquire(other, { owner: 'me' }),
      await locks.acquire(other, { owner: 'me' }),
    ]
    await one.extend(20_000)
    await one.extend(5_000)
    expect([await one.release(), await two.release()]).toEqual([true, true])
  })

  test('caches need a few more: loaded, waited for, failed, overruled', async () => {
    const [mine, theirs] = await Promise.all(['one', 'two'].map((name) => user(name, [...rule, ...ofCaches])))
    const [here, there] = [mine, theirs].map((locks) => locks.cache({ ttl: 60_000 }))
    const bypassed = jest.fn()
    for (const cache of [here, there]) cache.on('bypassed', bypassed).on('writeFailed', bypassed)
    const key = store.newKey()
    const load = async () => {
      await until('the other one waits', () => there.stats().waits === 1)
      return 'value'
    }
    const loading = here.getOrSet(key, load)
    await until('it is loaded', () => here.stats().loads === 1)
    expect(await there.getOrSet(key, () => 'wrong')).toBe('value')
    expect(await loading).toBe('value')
    await here.set(key, 1, { staleFor: 60_000 })
    await here.expire(key)
    await expect(here.refresh(key, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await there.getOrSet(key, () => null, { staleFor: 60_000 })).toBe(1)
    expect(await here.delete(key)).toBe(true)
    expect(bypassed).not.toHaveBeenCalled()
    // Without them each process loads for itself, and says so.
    const without = await user('plain', rule)
    const cache = without.cache({ ttl: 60_000 })
    const event = once(cache, 'bypassed')
    expect(await cache.getOrSet(key, () => 'alone')).toBe('alone')
    expect((await event)[0].message).toMatch(/can't run|permission|NOPERM/i)
  })
})
