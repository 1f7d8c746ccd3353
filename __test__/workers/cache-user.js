'use strict'

// A process with a cache, whose loaders say when they begin and load when they are told to.

const { createLocks } = require('../..')
const { settings, tell } = require('../support/parent')

const { url, options, cache: cacheOptions } = settings
const locks = createLocks({ url, ...options })
const cache = locks.cache({ ttl: 60_000, ...cacheOptions })
for (const name of ['loadFailed', 'writeFailed', 'readFailed', 'bypassed']) {
  cache.on(name, (error) => tell('event', { name, code: error.code, message: error.message }))
}
process.on('unhandledRejection', (error) => {
  tell('event', { name: 'unhandledRejection', message: String(error) })
})
const gates = []

const orders = {
  /** Some callers at once; says what each of them got. */
  async ask({ key, callers = 1, value, ms }) {
    const load = ({ signal }) => {
      signal.addEventListener('abort', () => tell('aborted', { reason: signal.reason.code }))
      tell('loading', { at: process.hrtime.bigint() })
      return ms === undefined
        ? new Promise((resolve) => gates.push(() => resolve(value)))
        : new Promise((resolve) => setTimeout(resolve, ms, value))
    }
    const calls = Array.from({ length: callers }, () => cache.getOrSet(key, load))
    await tell('asked')
    const answers = (await Promise.allSettled(calls)).map(({ value, reason }) => value ?? reason.code)
    tell('answered', { answers })
  },

  load: () => gates.shift()(),

  async get({ key }) {
    tell('got', { value: await cache.get(key) })
  },

  async refresh({ key }) {
    const error = await cache
      .refresh(key, () => 'refreshed')
      .then(
        () => undefined,
        (reason) => reason,
      )
    tell('refreshed', { code: error?.code })
  },

  stats: () => tell('stats', { stats: cache.stats(), commands: locks.stats().commands }),

  /** Nothing is left that keeps this process alive. */
  leave: () => process.disconnect(),
}

process.on('message', ({ order, ...rest }) => orders[order](rest))
process.on('disconnect', () => {
  if (!settings.stays) process.exit()
})
locks.ready().then(
  () => tell('ready'),
  (error) => tell('ready', { code: error.code }),
)
