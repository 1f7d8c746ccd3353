'use strict'

// Wrong arguments are told at once, by name, with what is allowed: promises reject, plain functions throw.
// Nothing that a caller can pass ends the process.

const { inspect } = require('node:util')
const { createLocks, configure } = require('..')
const { startWorker } = require('./support/processes')

// Which code goes with which class, as in Node's own errors.
const KINDS = {
  ERR_INVALID_ARG_TYPE: TypeError,
  ERR_INVALID_ARG_VALUE: TypeError,
  ERR_OUT_OF_RANGE: RangeError,
}

function expectRefusal(error, { code, mentions = [], conceals = [] }) {
  expect(Object.keys(KINDS)).toContain(error?.code)
  expect(error).toBeInstanceOf(KINDS[error.code])
  if (code) expect(error.code).toBe(code)
  for (const text of mentions) expect(error.message).toMatch(text)
  for (const text of conceals) expect(`${error.message}${error.stack}${inspect(error)}`).not.toContain(text)
}

const thrownBy = (fn) => {
  try {
    fn()
  } catch (error) {
    return error
  }
}

let locks

beforeAll(() => {
  locks = createLocks({ url: 'memory:bad-input' })
})

afterAll(() => locks.close())

// Refused by a promise: a call never throws.
const rejectionOf = async (call) => {
  const promise = call()
  expect(promise).toBeInstanceOf(Promise)
  return promise.then(
    (value) => {
      throw new Error(`was accepted: ${value}`)
    },
    (error) => error,
  )
}

describe('key', () => {
  const long = 'ü'.repeat(32_769)
  const keys = [
    ['empty', '', { mentions: [/key/, /empty/] }],
    ['missing', undefined, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/key/, /string/, /undefined/] }],
    ['null', null, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/null/] }],
    ['a number', 42, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/key/, /42|number/] }],
    ['an object', {}, { code: 'ERR_INVALID_ARG_TYPE' }],
    ['a symbol', Symbol('s'), { code: 'ERR_INVALID_ARG_TYPE' }],
    ['a Buffer', Buffer.from('key'), { code: 'ERR_INVALID_ARG_TYPE' }],
    ['a String object', Object('key'), { code: 'ERR_INVALID_ARG_TYPE' }],
    ['no key in an array', [], { code: 'ERR_OUT_OF_RANGE', mentions: [/key/, /1 to 100/] }],
    [
      'too many keys',
      Array.from({ length: 101 }, (_, i) => `${i}`),
      { code: 'ERR_OUT_OF_RANGE', mentions: [/100/] },
    ],
    ['a number among keys', ['a', 5], { code: 'ERR_INVALID_ARG_TYPE', mentions: [/key/, /5/, /string/] }],
    ['an empty one among keys', ['a', ''], { code: 'ERR_OUT_OF_RANGE', mentions: [/key/, /empty/] }],
    ['one of our own', '~f{0}', { mentions: [/key/, /~f\{/] }],
    ['an array in an array', [['a']], { code: 'ERR_INVALID_ARG_TYPE' }],
    ['longer than 64 KiB as UTF-8', long, { mentions: [/key/, /65[ _,]?536|64 KiB/] }],
    ['with a lone surrogate', 'a\ud800b', { mentions: [/key/, /surrogate|well-formed|Unicode/i] }],
  ]
  const calls = [
    ['acquire', (key) => locks.acquire(key)],
    ['tryAcquire', (key) => locks.tryAcquire(key)],
    ['withLock', (key) => locks.withLock(key, () => {})],
    ['tryWithLock', (key) => locks.tryWithLock(key, () => {})],
  ]
  for (const [name, call] of calls) {
    test.each(keys)(`${name}: %s is refused`, async (_, key, refusal) => {
      expectRefusal(await rejectionOf(() => call(key)), refusal)
    })
  }

  test('a long key is not repeated in full', async () => {
    const error = await rejectionOf(() => locks.acquire(long))
    expect(error.message.length).toBeLessThan(1_000)
  })

  test('exactly 64 KiB is allowed', async () => {
    const lock = await locks.acquire('ü'.repeat(32_768))
    expect(await lock.release()).toBe(true)
  })
})

describe('ttl', () => {
  const ttls = [
    [0, { code: 'ERR_OUT_OF_RANGE', mentions: [/ttl/, /\b0\b/, /100/] }],
    [10, { code: 'ERR_OUT_OF_RANGE', mentions: [/ttl/, /\b10\b/, /100/, /millisecond|\bms\b/] }],
    [99, { code: 'ERR_OUT_OF_RANGE', mentions: [/99/] }],
    [-1, { code: 'ERR_OUT_OF_RANGE', mentions: [/-1/] }],
    [Number.NaN, { code: 'ERR_OUT_OF_RANGE', mentions: [/NaN/] }],
    [Number.POSITIVE_INFINITY, { code: 'ERR_OUT_OF_RANGE', mentions: [/Infinity/] }],
    [1_000.5, { code: 'ERR_OUT_OF_RANGE', mentions: [/integer/, /1000\.5/] }],
    [2_147_483_648, { code: 'ERR_OUT_OF_RANGE', mentions: [/2147483648|2[ _,]147[ _,]483[ _,]648/] }],
    [2 ** 32 + 1_000, { code: 'ERR_OUT_OF_RANGE' }],
    ['10000', { code: 'ERR_INVALID_ARG_TYPE', mentions: [/ttl/, /number/, /10000/] }],
    [10_000n, { code: 'ERR_INVALID_ARG_TYPE' }],
    [null, { code: 'ERR_INVALID_ARG_TYPE' }],
    [{}, { code: 'ERR_INVALID_ARG_TYPE' }],
  ]
  test.each(ttls)('%p is refused by every call', async (ttl, refusal) => {
    expectRefusal(await rejectionOf(() => locks.acquire('k', { ttl })), refusal)
    expectRefusal(await rejectionOf(() => locks.tryAcquire('k', { ttl })), refusal)
    expectRefusal(await rejectionOf(() => locks.withLock('k', { ttl }, () => {})), refusal)
    expectRefusal(await rejectionOf(() => locks.tryWithLock('k', { ttl }, () => {})), refusal)
    expectRefusal(
      thrownBy(() => createLocks({ url: 'memory:', ttl })),
      refusal,
    )
    const lock = await locks.acquire('k')
    expectRefusal(await rejectionOf(() => lock.extend(ttl)), refusal)
    expect(lock.held).toBe(true)
    await lock.release()
  })

  test.each([100, 2_147_483_647])('%p is allowed', async (ttl) => {
    const lock = await locks.acquire('k', { ttl })
    await lock.extend(ttl)
    expect(await lock.release()).toBe(true)
  })

  test('undefined means the default', async () => {
    const lock = await locks.acquire('k', {
      ttl: undefined,
      timeout: undefined,
      signal: undefined,
      autoExtend: undefined,
    })
    expect(lock.remaining).toBeGreaterThan(8_000)
    await lock.release()
  })
})

describe('other options of a call', () => {
  const wrong = [
    [{ timeout: -1 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/timeout/, /-1/] }],
    [{ timeout: Number.NaN }, { code: 'ERR_OUT_OF_RANGE', mentions: [/timeout/, /NaN/] }],
    [{ timeout: Number.NEGATIVE_INFINITY }, { code: 'ERR_OUT_OF_RANGE' }],
    [{ timeout: '5s' }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/timeout/, /5s/, /number/] }],
    [{ timeout: null }, { code: 'ERR_INVALID_ARG_TYPE' }],
    [{ autoExtend: 1 }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/autoExtend/, /boolean|true/] }],
    [{ autoExtend: 'false' }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/autoExtend/] }],
    [{ signal: {} }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/signal/, /AbortSignal/] }],
    [{ signal: new AbortController() }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/signal/] }],
    [{ ttll: 1_000 }, { mentions: [/ttll/, /did you mean.*ttl/i] }],
    [{ time_out: 1_000 }, { mentions: [/time_out/, /did you mean.*timeout/i] }],
    [{ TTL: 1_000 }, { mentions: [/TTL/, /did you mean.*ttl/i] }],
    [{ retries: 3 }, { mentions: [/retries/] }],
    [5_000, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/options/, /object/] }],
    ['fast', { code: 'ERR_INVALID_ARG_TYPE' }],
    [null, { code: 'ERR_INVALID_ARG_TYPE' }],
  ]
  test.each(wrong)('%p is refused', async (options, refusal) => {
    expectRefusal(await rejectionOf(() => locks.acquire('k', options)), refusal)
    expectRefusal(await rejectionOf(() => locks.withLock('k', options, () => {})), refusal)
  })

  test('an option of another call is refused: nothing is ignored silently', async () => {
    expectRefusal(await rejectionOf(() => locks.tryAcquire('k', { timeout: 5 })), { mentions: [/timeout/] })
    expectRefusal(await rejectionOf(() => locks.acquire('k', { ifLost: 'ignore' })), { mentions: [/ifLost/] })
    expectRefusal(await rejectionOf(() => locks.acquire('k', { url: 'memory:' })), { mentions: [/url/] })
    expectRefusal(await rejectionOf(() => locks.withLock('k', { ifLost: 'maybe' }, () => {})), {
      mentions: [/ifLost/, /maybe/, /reject/, /ignore/],
    })
  })

  // Options of which other libraries, or later versions, make a promise: taking them silently would break it.
  const later = {
    quorum: 3,
    replicas: 1,
  }
  test.each(Object.entries(later))('%s is refused by name', async (name, value) => {
    expectRefusal(await rejectionOf(() => locks.acquire('k', { [name]: value })), {
      mentions: [new RegExp(name)],
    })
    expectRefusal(
      thrownBy(() => createLocks({ url: 'memory:', [name]: value })),
      { mentions: [new RegExp(name)] },
    )
  })

  const bad = {
    maxHold: [0, -1, NaN, '5s', null],
    maxStall: [0, 99, NaN, '5s', null],
    minHold: [-1, 0.5, NaN, Infinity, '5s', null],
    reentrant: [1, 'yes', null],
    turn: [3, null, [], { holders: 0 }, { holders: 1.5 }, { duration: -1 }, { holder: 3 }],
    fair: [1, 'yes', null],
    owner: ['', 'x'.repeat(201), 42, null, 'a\ud800b'],
    strategy: [
      'sleep',
      null,
      5,
      [],
      {},
      { type: 'sleep' },
      { type: 'poll', interval: -1 },
      { type: 'poll', interval: '5' },
      { type: 'poll', interval: 100, cap: 50 },
      { type: 'poll', factor: 0.5 },
      { type: 'poll', factor: NaN },
      { type: 'poll', jitter: 2 },
      { type: 'poll', jitter: 'some' },
      { type: 'poll', jitter: [1] },
      { type: 'poll', jitter: [1, 0.5] },
      { type: 'poll', maxAttempts: 0 },
      { type: 'poll', maxAttempts: 1.5 },
      { type: 'poll', maxDuration: -5 },
      { type: 'poll', then: 'adaptive' },
      { type: 'poll', then: 'never' },
      { type: 'poll', delay: 5 },
    ],
  }
  const cases = Object.entries(bad).flatMap(([name, values]) => values.map((value) => [name, value]))
  test.each(cases)('%s: %p is refused', async (name, value) => {
    const refusal = { mentions: [new RegExp(name)] }
    expectRefusal(await rejectionOf(() => locks.acquire('k', { [name]: value })), refusal)
    if (name !== 'owner')
      expectRefusal(
        thrownBy(() => createLocks({ url: 'memory:', [name]: value })),
        refusal,
      )
  })

  test('a strategy that contains itself is refused', async () => {
    const strategy = { type: 'poll' }
    strategy.then = strategy
    expectRefusal(await rejectionOf(() => locks.acquire('k', { strategy })), { mentions: [/phases/] })
  })

  test('fair says how many holders a turn has, so turn does not', async () => {
    const both = { fair: true, turn: { holders: 5 } }
    expectRefusal(await rejectionOf(() => locks.acquire('k', both)), { mentions: [/turn\.holders/, /fair/] })
    const lock = await locks.acquire('fair', { fair: true, turn: { duration: 5 } })
    await lock.release()
  })

  test('an owner belongs to a call, and goes with no minHold', async () => {
    expectRefusal(
      thrownBy(() => createLocks({ url: 'memory:', owner: 'me' })),
      { mentions: [/owner/] },
    )
    const both = { owner: 'me', minHold: 5 }
    expectRefusal(await rejectionOf(() => locks.acquire('k', both)), { mentions: [/minHold/, /owner/] })
  })

  test.each([
    undefined,
    null,
    'ticket',
    {},
    { keys: [] },
    { keys: ['a'], token: 'x', fencingToken: 1, ttl: 1_000 },
    { keys: ['a'], token: `hf1.p.${'0'.repeat(32)}.1.3100`, fencingToken: -1, ttl: 1_000 },
    { keys: ['a'], token: `hf1.p.${'0'.repeat(32)}.1.3100`, fencingToken: 1, ttl: 5 },
    { keys: ['a'], token: `hf1.p.${'0'.repeat(32)}.1.3100`, fencingToken: 1, ttl: 1_000, owner: '' },
  ])('%p is no ticket', async (ticket) => {
    expectRefusal(await rejectionOf(() => locks.adopt(ticket)), {})
  })

  test('getters and toString of an option are no way in', async () => {
    const sly = { valueOf: () => 5_000, toString: () => '5000' }
    expectRefusal(await rejectionOf(() => locks.acquire('k', { ttl: sly })), { code: 'ERR_INVALID_ARG_TYPE' })
    const error = new Error('from a getter')
    const options = {
      get ttl() {
        throw error
      },
    }
    expect(await rejectionOf(() => locks.acquire('k', options))).toBe(error)
  })

  test('a refused call leaves nothing behind', async () => {
    expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
  })
})

describe('function', () => {
  test.each([undefined, null, {}, 'fn', Promise.resolve()])(
    '%p instead of it is refused before the lock is taken',
    async (fn) => {
      const before = locks.stats().acquired
      expectRefusal(await rejectionOf(() => locks.withLock('k', {}, fn)), {
        code: 'ERR_INVALID_ARG_TYPE',
        mentions: [/fn|function/],
      })
      expectRefusal(await rejectionOf(() => locks.tryWithLock('k', {}, fn)), { code: 'ERR_INVALID_ARG_TYPE' })
      expect(locks.stats().acquired).toBe(before)
    },
  )

  test('options after it are refused, not ignored', async () => {
    const swapped = rejectionOf(() => locks.withLock('k', () => {}, { ttl: 5_000 }))
    expectRefusal(await swapped, { code: 'ERR_INVALID_ARG_TYPE' })
  })
})

describe('createLocks', () => {
  const password = 'tr0ub4dor'
  const wrong = [
    [{ url: 42 }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/url/, /42|number/] }],
    [{ url: '' }, { mentions: [/url/] }],
    [{ url: 'localhost:6380' }, { mentions: [/url/, /redis:/] }],
    [{ url: 'http://localhost' }, { mentions: [/url/, /http:/, /redis:/] }],
    [{ url: `redis://user:${password}@` }, { mentions: [/url/], conceals: [password] }],
    [{ url: `redis//user:${password}@host` }, { mentions: [/url/], conceals: [password] }],
    [{ url: `redis://user:${password}@host:port` }, { mentions: [/url/], conceals: [password] }],
    [{ url: `rediz://user:${password}@host` }, { mentions: [/url/, /rediz:/], conceals: [password] }],
    [{ url: 'redis://host:0' }, { mentions: [/url|port/] }],
    [{ url: 'redis://host:65536' }, { mentions: [/url|port/] }],
    [{ url: 'redis://host/x' }, { mentions: [/url|db|database/] }],
    [{ url: 'redis://host/-1' }, { mentions: [/url|db|database/] }],
    [{ url: 'redis://host/1/2' }, { mentions: [/url|db|database/] }],
    [{ url: 'unix:' }, { mentions: [/url|path|socket/] }],
    [{ url: 'redis://a,redis://b' }, { mentions: [/url/] }],
    [{ url: 'redis://a b' }, { mentions: [/url/] }],
    [{ db: -1 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/db/, /-1/] }],
    [{ db: 1.5 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/db/] }],
    [{ db: 2 ** 40 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/db/] }],
    [{ db: '1' }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/db/, /number/] }],
    [{ username: 1 }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/username/] }],
    [{ password: 12345 }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/password/], conceals: ['12345'] }],
    [
      { password: [password] },
      { code: 'ERR_INVALID_ARG_TYPE', mentions: [/password/], conceals: [password] },
    ],
    [{ keyPrefix: 1 }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/keyPrefix/] }],
    [{ keyPrefix: '\ud800' }, { mentions: [/keyPrefix/] }],
    [{ commandTimeout: 9 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/commandTimeout/, /\b9\b/, /10/] }],
    [{ commandTimeout: 60_001 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/commandTimeout/] }],
    [{ commandTimeout: '1' }, { code: 'ERR_INVALID_ARG_TYPE', mentions: [/commandTimeout/] }],
    [{ ifLost: 'maybe' }, { mentions: [/ifLost/, /maybe/, /reject/, /ignore/] }],
    [{ timeout: -1 }, { code: 'ERR_OUT_OF_RANGE', mentions: [/timeout/] }],
    [{ strategy: 'sleep' }, { mentions: [/strategy/, /sleep/, /backoff/] }],
    [
      { url: 'rediss://localhost', tls: true },
      { code: 'ERR_INVALID_ARG_TYPE', mentions: [/tls/] },
    ],
    [{ url: 'rediss://localhost', tls: { cert: 1 } }, { mentions: [/cert/] }],
    [
      { url: 'rediss://localhost', tls: { rejectUnauthorised: false } },
      { mentions: [/rejectUnauthorised/, /did you mean.*rejectUnauthorized/i] },
    ],
    [{ host: 'localhost' }, { mentions: [/host/] }],
    [{ keyprefix: 'x' }, { mentions: [/keyprefix/, /did you mean.*keyPrefix/i] }],
    [{ sentinel: {} }, { mentions: [/sentinel/] }],
    [{ cluster: [] }, { mentions: [/cluster/] }],
    [{ quorum: [] }, { mentions: [/quorum/] }],
    [{ url: 'redis://localhost', sentinel: {} }, { mentions: [/sentinel/] }],
    [{ replicas: 1 }, { mentions: [/replicas/] }],
  ]
  test.each(wrong)('%p is refused by a throw', (options, refusal) => {
    expectRefusal(
      thrownBy(() => createLocks(options)),
      refusal,
    )
    expectRefusal(
      thrownBy(() => configure(options)),
      refusal,
    )
  })

  test.each([null, 'redis://localhost', 42, []])('%p instead of options is refused', (options) => {
    expectRefusal(
      thrownBy(() => createLocks(options)),
      { code: 'ERR_INVALID_ARG_TYPE', mentions: [/options/] },
    )
  })

  test('TLS options without TLS are refused, not ignored', () => {
    expectRefusal(
      thrownBy(() => createLocks({ url: 'redis://localhost', tls: {} })),
      { mentions: [/tls/, /rediss:/] },
    )
  })

  const fine = [
    { url: 'redis://localhost' },
    { url: 'redis://user:p%40ss@localhost:6380/3' },
    { url: 'redis://[::1]:6380' },
    { url: 'valkey://127.0.0.1', db: 2, username: 'u', password: 'p' },
    { url: 'rediss://localhost', tls: { rejectUnauthorized: false } },
    { url: 'valkeys://localhost', tls: { servername: 'y' } },
    { url: 'unix:///run/x.sock?db=1' },
    { url: 'memory:' },
    {
      url: 'memory:a-name',
      keyPrefix: '',
      ttl: 100,
      timeout: 0,
      commandTimeout: 10,
      strategy: 'backoff',
      ifLost: 'ignore',
    },
  ]
  // Creating one connects to nothing: these need no server.
  test.each(fine)('%p is fine', (options) => {
    expect(createLocks(options).stats().commands).toBe(0)
  })
})

describe('close and ready', () => {
  test.each([{ drain: -1 }, { drain: Number.NaN }, { drain: '1' }, { drian: 1 }, 5])(
    'close(%p) is refused, and closes nothing',
    async (options) => {
      expectRefusal(await rejectionOf(() => locks.close(options)), { mentions: [/drain|drian|options/] })
      expect(await locks.withLock('k', () => 'value')).toBe('value')
    },
  )

  test.each([{ timeout: -1 }, { timeout: '1' }, { time: 1 }, 5])('ready(%p) is refused', async (options) => {
    expectRefusal(await rejectionOf(() => locks.ready(options)), {})
  })
})

test('nothing that a caller can pass ends the process', async () => {
  const worker = startWorker('hostile-input')
  const { calls, settled } = await worker.next('done')
  expect(calls).toBeGreaterThan(2_000)
  expect(settled).toBe(calls)
  const { code, signal, output } = await worker.ended
  expect({ code, signal, output }).toEqual({ code: 0, signal: null, output: '' })
}, 60_000)
