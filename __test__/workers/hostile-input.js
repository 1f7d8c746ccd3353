'use strict'

// Passes every value of a hostile list in every place where a caller can pass something. Each call must settle: the
// process has to reach its end, with nothing printed and nothing unhandled.

// The default manager is asked too, and must go nowhere.
process.env.HOLDFAST_URL = 'memory:default'

const vm = require('node:vm')
const { createLocks, acquire, release, isLockError } = require('../..')
const { tell } = require('../support/parent')

const cyclic = {}
cyclic.self = cyclic
const { proxy, revoke } = Proxy.revocable({}, {})
revoke()

const hostile = [
  undefined, null, true, false, 0, -0, 1, -1, 1.5, 100, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63), 1e308, 5e-324,
  Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0n, 2n ** 70n, '', 'a', '\0', '\ud800', '\udfff\ud800',
  'x'.repeat(1_000_000), '💥'.repeat(20_000), Symbol('s'), Symbol.iterator, [], [[]], ['a', 'b'], {}, cyclic, proxy,
  Object.create(null), new Date(Number.NaN), /x/, new Map(), new Set(), Buffer.alloc(0), Buffer.from([0xff, 0xfe]),
  new Uint8Array(8), new SharedArrayBuffer(8), new DataView(new ArrayBuffer(4)), new Error('x'), Promise.resolve('x'),
  () => {}, async () => 1, class {}, function* () {}, vm.runInNewContext('({ ttl: 100 })'), vm.runInNewContext('[]'),
  { toString() { throw new Error('toString') } }, { [Symbol.toPrimitive]() { throw new Error('toPrimitive') } },
  { get ttl() { throw new Error('getter') } }, new Proxy({}, { get() { throw new Error('trap') }, ownKeys() { throw new Error('trap') } }),
  globalThis, process, { aborted: true }, { aborted: false, addEventListener() { throw new Error('listener') } },
  'redis://', 'redis://:@:/', 'redis://[::1', 'memory:', 'unix:', 'data:,x', 'javascript:alert(1)', '%', '%00', '../..', '__proto__',
  { __proto__: { ttl: 'inherited' } }, { constructor: 1 }, JSON.parse('{"__proto__":{"ttl":1}}'),
] // biome-ignore format: a list that is read by eye

const options = ['ttl', 'timeout', 'signal', 'autoExtend', 'ifLost', 'nonsense']
const managerOptions = [
  'url',
  'username',
  'password',
  'db',
  'tls',
  'keyPrefix',
  'commandTimeout',
  'timeout',
  'ttl',
  'ifLost',
  'strategy',
]
const tlsOptions = ['ca', 'cert', 'key', 'servername', 'rejectUnauthorized']

const locks = createLocks({ url: 'memory:hostile', timeout: 5, ttl: 100 })
let calls = 0
let settled = 0

async function attempt(fn) {
  calls++
  try {
    const value = await fn()
    // What was granted is given back, so that the next hostile value finds the key free.
    if (value && typeof value.release === 'function') await value.release()
    if (value && typeof value.close === 'function') await value.close()
  } catch {}
  settled++
}

async function main() {
  for (const value of hostile) {
    await attempt(() => locks.acquire(value))
    await attempt(() => locks.tryAcquire(value))
    await attempt(() => locks.withLock(value, value, value))
    await attempt(() => locks.tryWithLock(value, value))
    await attempt(() => locks.acquire('k', value))
    await attempt(() => locks.tryAcquire('k', value))
    await attempt(() => locks.withLock('k', value, () => value))
    await attempt(() => locks.withLock('k', () => value))
    await attempt(() =>
      locks.withLock('k', () => {
        throw value
      }),
    )
    await attempt(() => locks.ready(value))
    await attempt(() => release(value))
    await attempt(() => isLockError(value, value))
    for (const name of options) {
      await attempt(() => locks.acquire('k', { [name]: value }))
      await attempt(() => locks.withLock('k', { [name]: value }, () => {}))
    }
    const lock = await locks.acquire('k', { timeout: 5_000 })
    await attempt(() => lock.extend(value))
    await lock.release()
    await attempt(() => createLocks(value))
    // An odd value may still name a place; nothing is asked of it, so nothing is connected.
    for (const name of managerOptions)
      await attempt(() => createLocks({ url: 'memory:other', [name]: value }))
    for (const name of tlsOptions)
      await attempt(() => createLocks({ url: 'rediss://127.0.0.1:1', tls: { [name]: value } }))
    await attempt(() => createLocks({ url: 'memory:closed' }).close({ drain: value }))
    await attempt(() => Reflect.construct(locks.constructor, [value]))
    await attempt(() => acquire.call(value, value))
    await attempt(() => locks.acquire.call(value, 'k'))
    await attempt(() => lock.release.call(value))
  }
  await tell('done', { calls, settled })
}

main()
