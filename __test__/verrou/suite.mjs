// The tests that @verrou/core has for its stores, on Holdfast; and what they leave open: several stores on one server.

import { setTimeout as sleep } from 'node:timers/promises'
import { test } from '@japa/runner'
import { E_LOCK_NOT_OWNED, LockFactory } from '@verrou/core'
import { registerStoreTestSuite } from '@verrou/core/test_suite'
import serverProcess from '../support/server.js'
import { HoldfastStore } from './lock-store.mjs'

/**
 * For each place: what a store and another one need to share keys but no connection, no queue and no handle, as stores in
 * two processes do.
 */
const places = {
  'memory:': async () => ({
    // Prefix and key together name the same key in the store.
    here: { url: 'memory:verrou', keyPrefix: 'lock:' },
    there: { url: 'memory:verrou', keyPrefix: 'lock:j' },
    keys: ['job', 'ob'],
    stop() {},
  }),
  'a real server': async () => {
    const server = await serverProcess.start()
    return {
      here: { url: server.url },
      // Another name of the host is another connection.
      there: { url: server.otherUrl },
      keys: ['job', 'job'],
      stop: () => server.stop(),
    }
  },
}

for (const [name, open] of Object.entries(places)) {
  let place
  const stores = []
  const createStore = (options = place.here) => {
    const store = new HoldfastStore(options)
    stores.push(store)
    return store
  }

  /** @param {import('@japa/runner/core').Group} group */
  const onPlace = (group) => {
    group.setup(async () => {
      place = await open()
      return () => place.stop()
    })
    // Most tests leave their lock taken, and the next one asks for the same key.
    group.each.teardown(() => Promise.all(stores.splice(0).map((store) => store.disconnect())))
  }

  test.group(`@verrou/core's store tests on ${name}`, (group) => {
    onPlace(group)
    registerStoreTestSuite({ test, createStore })
  })

  test.group(`two stores on ${name}`, (group) => {
    onPlace(group)
    /** A lock of each, on the same key. */
    const createLocks = (duration) => {
      const factories = [place.here, place.there].map((options) => new LockFactory(createStore(options)))
      return factories.map((factory, i) => factory.createLock(place.keys[i], duration))
    }

    test('exclude each other until one gives back', async ({ assert }) => {
      const [first, second] = createLocks()
      assert.isTrue(await first.acquireImmediately())
      assert.isTrue(await second.isLocked())
      assert.isFalse(await second.acquireImmediately())
      await first.release()
      assert.isFalse(await second.isLocked())
      assert.isTrue(await second.acquireImmediately())
      assert.isFalse(await first.acquireImmediately())
    })

    test('run one at a time', async ({ assert }) => {
      let running = 0
      let most = 0
      let runs = 0
      const work = async (lock) => {
        for (let i = 0; i < 5; i++) {
          await lock.run(async () => {
            most = Math.max(most, ++running)
            await sleep(5)
            running -= 1
            runs += 1
          })
        }
      }
      await Promise.all(createLocks().map(work))
      assert.deepEqual({ most, runs }, { most: 1, runs: 10 })
    })

    test('pass a key on when its time is over, and whoever had it can neither extend nor release it', async ({
      assert,
    }) => {
      const [first, second] = createLocks(200)
      await first.acquire()
      assert.isFalse(await second.acquireImmediately())
      assert.isTrue(await second.acquire({ retry: { delay: 20 } }))
      await assert.rejects(() => first.extend(500), E_LOCK_NOT_OWNED.message)
      await assert.rejects(() => first.release(), E_LOCK_NOT_OWNED.message)
      assert.isTrue(await second.isLocked())
      await second.release()
    })

    test("don't break each other's locks", async ({ assert }) => {
      const [first, second] = createLocks()
      await first.acquire()
      await assert.rejects(() => second.release(), E_LOCK_NOT_OWNED.message)
      await assert.rejects(() => second.forceRelease(), /is held through another store/)
      assert.isTrue(await second.isLocked())
      await first.release()
    })
  })
}
