'use strict'

// Holds, waits, loses and gives up locks through trouble, listening to no event and no signal and keeping no promise.
// An unhandled rejection ends a process of Node with an output and code 1.

const { setTimeout: sleep } = require('node:timers/promises')
const { createLocks, isLockError } = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()
if (settings.reject) Promise.reject(new Error('on purpose'))

const warnings = []
process.on('warning', (warning) => warnings.push(String(warning)))

// What a caller awaits it also catches; nothing else is caught here.
const outcome = (promise) => promise.catch((error) => error)

async function step(name) {
  await tell('step', { name })
  await hear()
}

async function main() {
  const { url, rawPort } = settings
  const locks = createLocks({ url, commandTimeout: 100 })
  await locks.ready()
  const raw = new RespClient({ port: rawPort })

  // Lost in each way, with and without a signal that anybody asked for.
  const taken = await locks.acquire('taken', { ttl: 200 })
  taken.signal
  await locks.acquire('taken-unwatched', { ttl: 200 })
  await locks.acquire('expired', { ttl: 100, autoExtend: false })
  await raw.command('DEL', 'lock:taken', 'lock:taken-unwatched')
  raw.close()
  await sleep(400)

  const held = await Promise.all(
    Array.from({ length: 20 }, (_, i) => locks.acquire(`held:${i}`, { ttl: 500 })),
  )
  // More listeners on one signal than Node likes, if they were left there.
  const { signal } = new AbortController()
  for (let i = 0; i < 50; i++) await outcome(locks.tryAcquire('held:0', { signal }))

  await step('blackHole')
  const pending = [
    outcome(locks.acquire('new', { timeout: 300 })),
    outcome(locks.acquire('held:1', { timeout: 300 })),
    outcome(held[2].release()),
    outcome(held[3].extend()),
    held[4][Symbol.asyncDispose](),
    outcome(locks.withLock('held:5', { timeout: 300 }, () => {})),
  ]
  await sleep(800)
  await step('resume')
  await Promise.all(pending)

  await step('refuse')
  await outcome(locks.acquire('new', { timeout: 300 }))
  const unavailable = isLockError(await outcome(locks.tryAcquire('new')), 'ERR_LOCK_UNAVAILABLE')
  await step('resume')
  for (let i = 0; i < 5; i++) {
    await step('cut')
    await locks.withLock('new', () => {})
  }
  await step('restart')
  await locks.withLock('new', () => {})

  const { lost } = locks.stats()
  await locks.acquire('left', { ttl: 500 })
  await step('blackHole')
  await locks.close()
  await tell('step', { name: 'end' })
  await tell('report', { warnings, lost, unavailable })
  process.disconnect()
}

main()
