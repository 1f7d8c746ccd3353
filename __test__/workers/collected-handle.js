'use strict'

// Forgets the handles of locks, has the garbage collected, and tells what was warned of. The scenario is settings.scenario.

const { setTimeout: sleep } = require('node:timers/promises')
const v8 = require('node:v8')
const vm = require('node:vm')
const { createLocks } = require('../..')
const { settings, tell } = require('../support/parent')

v8.setFlagsFromString('--expose-gc')
const collectGarbage = vm.runInNewContext('gc')

const { url, key, options } = settings
const locks = createLocks({ url, ttl: 400, ...options })

const warnings = []
process.on('warning', ({ code, message, detail }) => warnings.push({ code, message, detail }))

/** Long enough for a handle to be watched, and for the garbage to be collected many times. */
async function collectFor(ms) {
  const end = performance.now() + ms
  while (performance.now() < end) {
    await sleep(50)
    collectGarbage()
  }
}

const kept = []

const scenarios = {
  async forgotten() {
    await locks.acquire(key)
    await collectFor(2_500)
  },

  async 'several forgotten'() {
    await Promise.all([locks.acquire(`${key}:1`), locks.acquire([`${key}:2`, `${key}:3`])])
    await collectFor(2_500)
  },

  async 'adopted and forgotten'() {
    const lock = await locks.acquire(key)
    await locks.adopt(await lock.detach())
    kept.push(lock)
    await collectFor(2_500)
  },

  async 'its signal is listened to'() {
    const { signal } = await locks.acquire(key, { maxHold: 2_500 })
    signal.addEventListener('abort', () => kept.push('aborted'))
    await collectFor(2_500)
  },

  async kept() {
    kept.push(await locks.acquire(key))
    await collectFor(2_500)
  },

  async 'within withLock'() {
    await locks.withLock(key, () => collectFor(2_500))
  },

  async released() {
    await (await locks.acquire(key)).release()
    const long = await locks.acquire(key)
    await sleep(1_200)
    await long.release()
    await collectFor(1_500)
  },

  async lost() {
    await locks.acquire(key, { maxHold: 1_500 })
    await sleep(2_000)
    await collectFor(1_000)
  },
}

async function main() {
  await scenarios[settings.scenario]()
  const isTaken = (await createLocks({ url }).tryAcquire(key)) === null
  await tell('report', { warnings, isTaken, held: locks.stats().held, kept: kept.length })
}

main()
