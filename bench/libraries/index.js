'use strict'

/**
 * The libraries that are measured. The first one is the yardstick: every ratio is to it.
 *
 * Each file exports `{ name, version, renews, renewsEvery, redisKey, create }`:
 *
 * - `renews`: how the library keeps a held lock alive, in words, or `null` if it doesn't
 * - `renewsEvery(ttl)`: how often, ms; if it does
 * - `redisKey(key)`: where `key` lives in Redis. Used to prove before each run that the lock is real
 * - `create({ url, ttl, timeout })` connects and resolves with
 *   - `acquire(key)`: waits up to `timeout`, resolves with a handle
 *   - `tryAcquire(key)`: one attempt, resolves with a handle or `null`
 *   - `release(handle)`: resolves when the server confirmed; with `false` or `0` if the lock wasn't ours any more
 *   - `hold(key, work)`: `work(isLost)` while holding `key`, by whatever renews it. `isLost()` is what the
 *     library tells its holder, without a round trip; `undefined` if it tells nothing
 *   - `commands()`: how many requests it says that it has sent; optional
 *   - `close()`
 *
 * `acquire` and `release` are called as they are: an adapter adds no promise of its own where the library's will do.
 */
const names = [
  'hand-written',
  'redlock',
  'redis-semaphore',
  'redlock-universal',
  'verrou',
  'simple-redis-mutex',
  'holdfast',
]

function load(name) {
  if (!names.includes(name)) throw new Error(`no library '${name}'; there are: ${names.join(', ')}`)
  return require(`./${name}.js`)
}

module.exports = { names, yardstick: names[0], load }
