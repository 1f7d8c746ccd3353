// Holdfast as a store for the locks of @verrou/core. Who may have a key is decided by Holdfast's store alone, Redis or
// memory:. What is kept here are the handles of the locks that it granted, since only a handle can extend and release.

import { E_LOCK_NOT_OWNED } from '@verrou/core'
import { createLocks, LockLostError } from '../../index.mjs'

/** The shortest lease, ms. */
const SHORTEST = 100

export class HoldfastStore {
  #locks
  /** By key: who holds it through this store, and the handle. @type {Map<string, { owner: string, lock: import('../../index.js').Lock }>} */
  #holds = new Map()

  /** @param {import('../../index.js').ManagerOptions} options */
  constructor(options) {
    this.#locks = createLocks(options)
  }

  /**
   * One attempt. Without a duration the lock is held until it is given back, which here means: renewed.
   * @param {string} key @param {string} owner @param {number | null | undefined} duration ms
   */
  async save(key, owner, duration) {
    const options = duration ? { ttl: leaseWithin(duration), autoExtend: false } : {}
    const lock = await this.#locks.tryAcquire(key, options)
    if (!lock) return false
    // Whoever is noted from before has lost it.
    this.#holds.set(key, { owner, lock })
    lock.signal.addEventListener('abort', () => this.#forget(key, lock), { once: true })
    return true
  }

  async delete(key, owner) {
    const lock = this.#find(key, owner)
    // Before the lock is free: from then on the same owner may have the key again, by another handle.
    this.#forget(key, lock)
    if (!(await lock.release())) throw new E_LOCK_NOT_OWNED()
  }

  /** A lock that was saved without a duration goes on being renewed. */
  async extend(key, owner, duration) {
    try {
      await this.#find(key, owner).extend(leaseWithin(duration))
    } catch (error) {
      throw error instanceof LockLostError ? new E_LOCK_NOT_OWNED() : error
    }
  }

  /**
   * Whether anybody holds the key. Only an attempt can tell. A free key is thereby taken for the time of a round trip:
   * somebody else's attempt may fail at that moment, and verrou makes another.
   */
  async exists(key) {
    const lock = await this.#locks.tryAcquire(key, { ttl: SHORTEST, autoExtend: false })
    await lock?.release()
    return lock === null
  }

  /** Releases the lock, whoever owns it. One that is held through another store is not to be broken from here. */
  async forceDelete(key) {
    const hold = this.#holds.get(key)
    if (hold) return this.delete(key, hold.owner)
    if (await this.exists(key)) throw new Error(`"${key}" is held through another store`)
  }

  /** Gives back what is held. */
  async disconnect() {
    await this.#locks.close()
  }

  #find(key, owner) {
    const hold = this.#holds.get(key)
    if (hold?.owner !== owner) throw new E_LOCK_NOT_OWNED()
    return hold.lock
  }

  #forget(key, lock) {
    if (this.#holds.get(key)?.lock === lock) this.#holds.delete(key)
  }
}

/**
 * The lease whose key is gone after this time, ms. In the store a key outlives the lease of its holder by 1 %, at least
 * 10 ms, while verrou's time to live is that of the key.
 */
function leaseWithin(duration) {
  return Math.max(SHORTEST, Math.floor(Math.min(duration - 10, duration / 1.01)))
}
