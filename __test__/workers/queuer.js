'use strict'

// A process that asks for locks as it is told to: through several managers, each of which is a process of its own to the
// server. It can block its event loop, and compete without being told what to do.

const { createLocks } = require('../..')
const { blockLoop } = require('../support/block-loop')
const { settings, tell } = require('../support/parent')

const { url, managers = 1, options = {} } = settings
// Another commandTimeout makes another connection.
const all = Array.from({ length: managers }, (_, i) =>
  createLocks({ url, commandTimeout: 2_000 + i, ...options }),
)
const held = new Map()
const now = () => process.hrtime.bigint()

const orders = {
  async acquire({ manager = 0, name, key, ...more }) {
    const acquired = all[manager].acquire(key, { timeout: 60_000, ...more })
    tell('asked', { name })
    const lock = await acquired
    held.set(name, lock)
    tell('granted', { name, fence: lock.fencingToken, at: now(), held: lock.held })
  },

  async release({ name }) {
    const at = now()
    const answer = await held.get(name).release()
    tell('released', { name, answer, at })
  },

  block({ ms }) {
    tell('blocking').then(() => setImmediate(() => blockLoop(ms)))
  },

  async compete({ key, callers, ms, hold }) {
    const end = performance.now() + ms
    const holdings = []
    const caller = async () => {
      while (performance.now() < end) {
        const lock = await all[0].acquire(key, { timeout: 60_000 })
        const from = now()
        if (hold > 0) await new Promise((resolve) => setTimeout(resolve, hold))
        holdings.push({ key, owner: lock.token, from, until: now(), fence: lock.fencingToken })
        await lock.release()
      }
    }
    await Promise.all(Array.from({ length: callers }, caller))
    tell('competed', { holdings, stats: all[0].stats() })
  },
}

process.on('message', ({ order, ...rest }) => orders[order](rest))
process.on('disconnect', () => process.exit())
Promise.all(all.map((locks) => locks.ready())).then(() => tell('ready'))
