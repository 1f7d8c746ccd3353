'use strict'

// Jest's fake timers stop the clock of the code under test. They must not stop a lock.

const { createLocks } = require('..')

const enableEverything = () => jest.useFakeTimers({ doNotFake: [] })

// Real time passes by way of a real timer, kept from before.
const { setTimeout: realSetTimeout } = globalThis
const sleep = (ms) => new Promise((resolve) => realSetTimeout(resolve, ms))

let load = 0

afterEach(() => {
  jest.useRealTimers()
})

const cases = [
  ['loaded before them', () => createLocks],
  [
    'loaded while they are in force',
    () => {
      let fresh
      jest.isolateModules(() => {
        fresh = require('..')
      })
      return fresh.createLocks
    },
  ],
]

test.each(cases)('a lock, %s, is taken, renewed, waited for, lost and given back', async (_, get) => {
  enableEverything()
  const locks = get()({ url: `memory:fake${++load}` })
  const lock = await locks.acquire('a', { ttl: 150 })
  const timedOut = await locks.acquire('a', { timeout: 100 }).catch((error) => error)
  expect(timedOut.code).toBe('ERR_LOCK_TIMEOUT')
  await sleep(500)
  expect(lock.held).toBe(true)
  const waiting = locks.acquire('a')
  expect(await lock.release()).toBe(true)
  await (await waiting).release()
  const lossy = await locks.acquire('b', { ttl: 100, autoExtend: false })
  await new Promise((resolve) => lossy.signal.addEventListener('abort', resolve))
  expect(await locks.withLock('c', () => 'value')).toBe('value')
  const kept = await locks.acquire('d')
  await locks.close({ drain: 50 })
  expect(kept.signal.aborted).toBe(true)
  expect(jest.getTimerCount()).toBe(0)
})
