'use strict'

/**
 * The caches that are measured. The first one is the yardstick: every ratio is to it.
 *
 * Each file exports `{ name, version, create }`: `create({ url, ttl, load })` connects and resolves with
 *
 * - `read(key)`: the value of `key` from Redis, or what `load(key)` resolves with, which is stored for `ttl` ms
 * - `close()`
 *
 * `read` is the library's own call: an adapter adds no promise where the library's will do. Caches in the memory of a process
 * are off: what is compared is values that a fleet shares.
 */
const names = ['by-hand', 'bentocache', 'async-cache-dedupe', 'holdfast']

function load(name) {
  if (!names.includes(name)) throw new Error(`no cache '${name}'; there are: ${names.join(', ')}`)
  return require(`./${name}.js`)
}

module.exports = { names, yardstick: names[0], load }
