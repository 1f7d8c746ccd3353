'use strict'

// The same suite for every store: what a test gets by `store` is the same in front of a real server and of the
// store embedded in the process.

const { randomBytes } = require('node:crypto')
const { createLocks } = require('../..')
const { start } = require('./server')

let count = 0
// A process that has something left to give back comes to the port of its server even when another test's is there.
const file = randomBytes(4).toString('hex')

/**
 * @typedef {object} Store
 * @property {string} url
 * @property {import('./server').Server | null} server null for the embedded store
 * @property {() => string} newKey a key that no other test uses
 * @property {(options?: object) => import('../..').LockManager} createLocks closed after the test
 * @property {(key: string, options?: object) => { locks: import('../..').LockManager, key: string }} elsewhere
 *   another core for the same key, as another process would have: it shares no queue and no connection with `createLocks()`
 */

/** Declares `suite` once per store. @param {(store: Store) => void} suite */
function eachStore(suite) {
  describe.each(['embedded store', 'real server'])('%s', (name) => {
    suite(prepare(name === 'real server' ? {} : null))
  })
}

/** Declares `suite` for a real server alone: for what needs a hand in its data. @param {(store: Store) => void} suite @param {object} [serverOptions] */
function onServer(suite, serverOptions = {}) {
  describe('real server', () => suite(prepare(serverOptions)))
}

function prepare(serverOptions) {
  const store = { url: '', server: null }
  const managers = []
  store.newKey = () => `test:${file}:${++count}`
  store.createLocks = (options) => {
    const locks = createLocks({ url: store.url, ...options })
    managers.push(locks)
    return locks
  }
  store.elsewhere = (key, options) => {
    // Another name of the host is another connection, as another process has.
    if (store.server) return { locks: store.createLocks({ url: store.server.otherUrl, ...options }), key }
    // Here prefix and key together name the same key in the store.
    const [first, ...rest] = key.split(':')
    return { locks: store.createLocks({ keyPrefix: `lock:${first}:`, ...options }), key: rest.join(':') }
  }
  beforeAll(async () => {
    if (serverOptions) {
      store.server = await start(serverOptions)
      store.url = store.server.url
    } else {
      store.url = `memory:suite${++count}`
    }
  })
  afterEach(() => Promise.all(managers.splice(0).map((locks) => locks.close())))
  return store
}

module.exports = { eachStore, onServer }
