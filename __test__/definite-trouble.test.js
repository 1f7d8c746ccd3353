'use strict'

// Trouble that no waiting cures is told at once, with the server's own words, with the place and without the password.

const dns = require('node:dns/promises')
const { inspect } = require('node:util')
const { createLocks, LockUnavailableError } = require('..')
const { createAuthority } = require('./support/certificates')
const { start } = require('./support/server')

const PASSWORD = 'tr0ub4dor&3'
const USERS = [
  { name: 'no-scripts', rules: ['on', `>${PASSWORD}`, '~*', '&*', '+@all', '-@scripting'] },
  { name: 'no-keys', rules: ['on', `>${PASSWORD}`, '~other:*', '&*', '+@all'] },
  { name: 'switched-off', rules: ['off', `>${PASSWORD}`, '~*', '&*', '+@all'] },
]

let open
let guarded
let encrypted
let mutual
let managers

beforeAll(async () => {
  ;[open, guarded, encrypted, mutual] = await Promise.all([
    start({ databases: 4, unixSocket: true }),
    start({ password: PASSWORD, users: USERS }),
    start({ tls: true }),
    start({ tls: { requestCert: true } }),
  ])
})

beforeEach(() => {
  managers = []
})

afterEach(() => Promise.all(managers.map((locks) => locks.close())))

const create = (options) => {
  const locks = createLocks(options)
  managers.push(locks)
  return locks
}

// Far more than an attempt takes, and far less than anybody is told to wait.
const AT_ONCE = 2_000
const PATIENT = { timeout: 25_000 }

async function expectDefinite(options, { words, place, connects = false }) {
  const locks = create(options)
  const events = []
  locks.on('unavailable', (error) => events.push(error))
  const calls = [
    () => locks.acquire('k', PATIENT),
    () => locks.tryAcquire('k'),
    () => locks.withLock('k', PATIENT, () => {}),
    () => locks.tryWithLock('k', () => {}),
  ]
  // Whoever is let in at all finds the server ready.
  if (!connects) calls.push(() => locks.ready(PATIENT))
  for (const call of calls) {
    const from = performance.now()
    const error = await call().catch((reason) => reason)
    expect(performance.now() - from).toBeLessThan(AT_ONCE)
    expectTold(error, { words, place })
    expectConcealed(error)
  }
  // A server that lets us in and then refuses a command is there: that may be an event, and need not be.
  if (!connects) expect(events.length).toBe(1)
  for (const event of events) expect(event).toBeInstanceOf(LockUnavailableError)
  for (const each of [...events, locks]) expectConcealed(each)
  expect(locks.stats()).toMatchObject({ acquired: 0, held: 0, waiting: 0, timeouts: 0 })
}

function expectTold(error, { words, place }) {
  expect(error).toBeInstanceOf(LockUnavailableError)
  expect(error.code).toBe('ERR_LOCK_UNAVAILABLE')
  expect(error.cause).toBeInstanceOf(Error)
  expect(error.cause.code).toEqual(expect.stringMatching(/./))
  expect(error.cause.message).toMatch(words)
  expect(error.message).toContain(place)
}

function expectConcealed(value) {
  const shown = [
    value.message,
    value.stack,
    String(value),
    JSON.stringify(value),
    inspect(value, { depth: 10, showHidden: true, getters: true }),
  ]
  for (const text of shown) {
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD)]) expect(String(text)).not.toContain(secret)
  }
}

const address = (server) => `127.0.0.1:${server.port}`
const as = (user, password = PASSWORD) => ({ url: `redis://${address(guarded)}`, username: user, password })

describe('credentials', () => {
  test('no password where one is needed', () =>
    expectDefinite(
      { url: `redis://${address(guarded)}` },
      { words: /NOAUTH|Authentication required/i, place: address(guarded) },
    ))

  test('a wrong password', () =>
    expectDefinite(
      { url: guarded.url, password: 'wrong' },
      { words: /WRONGPASS|invalid username-password/i, place: address(guarded) },
    ))

  test('a wrong password in the URL, which is nowhere to be seen', async () => {
    const { port } = open
    const wrongUser = `redis://nobody:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}`
    await expectDefinite(
      { url: wrongUser },
      { words: /WRONGPASS|invalid username-password/i, place: address(open) },
    )
  })

  test('a user who does not exist', () =>
    expectDefinite(as('nobody'), { words: /WRONGPASS|invalid username-password/i, place: address(guarded) }))

  test('a user who is switched off', () =>
    expectDefinite(as('switched-off'), { words: /WRONGPASS|disabled/i, place: address(guarded) }))

  test('the right ones work, in the URL and beside it', async () => {
    for (const options of [
      { url: guarded.url },
      as('default'),
      { url: `redis://x:y@${address(guarded)}`, username: 'default', password: PASSWORD },
    ]) {
      const locks = create(options)
      expect(await locks.withLock('k', () => 'value')).toBe('value')
      expectConcealed(locks)
    }
  })
})

describe('rights', () => {
  test('no scripts', () =>
    expectDefinite(as('no-scripts'), {
      words: /NOPERM|no permissions/i,
      connects: true,
      place: address(guarded),
    }))

  test('no rights for the key', () =>
    expectDefinite(as('no-keys'), {
      words: /NOPERM|no permissions/i,
      connects: true,
      place: address(guarded),
    }))
})

test('a database that does not exist', async () => {
  await expectDefinite({ url: open.url, db: 4 }, { words: /DB index is out of range/i, place: address(open) })
  await expectDefinite(
    { url: `${open.url}/99` },
    { words: /DB index is out of range/i, place: address(open) },
  )
  expect(await create({ url: `${open.url}/3` }).withLock('k', () => 'value')).toBe('value')
})

test('databases are worlds of their own', async () => {
  const one = await create({ url: open.url, db: 1 }).acquire('k')
  const two = await create({ url: `${open.url}/2` }).acquire('k')
  expect([one.held, two.held]).toEqual([true, true])
  expect(await create({ url: `${open.url}/1` }).tryAcquire('k')).toBe(null)
})

describe('unix socket', () => {
  test('works, with a database too', async () => {
    expect(await create({ url: open.unixUrl }).withLock('k', () => 'value')).toBe('value')
    const lock = await create({ url: `${open.unixUrl}?db=3` }).acquire('k')
    expect(await create({ url: open.url, db: 3 }).tryAcquire('k')).toBe(null)
    await lock.release()
  })
})

describe('TLS', () => {
  const place = () => `localhost:${encrypted.tlsPort}`

  test('works with a trusted certificate, or without asking for one', async () => {
    expect(
      await create({ url: encrypted.tlsUrl, tls: { ca: encrypted.ca } }).withLock('k', () => 'value'),
    ).toBe('value')
    expect(
      await create({ url: encrypted.tlsUrl, tls: { ca: [Buffer.from(encrypted.ca)] } }).withLock(
        'k',
        () => 'value',
      ),
    ).toBe('value')
    const careless = create({
      url: encrypted.tlsUrl.replace('rediss', 'valkeys'),
      tls: { rejectUnauthorized: false },
    })
    expect(await careless.withLock('k', () => 'value')).toBe('value')
    const byAddress = create({ url: `rediss://127.0.0.1:${encrypted.tlsPort}`, tls: { ca: encrypted.ca } })
    expect(await byAddress.withLock('k', () => 'value')).toBe('value')
  })

  test('is used: nothing can be read on the way', async () => {
    const lock = await create({ url: encrypted.tlsUrl, tls: { ca: encrypted.ca } }).acquire('k')
    expect(await encrypted.command('GET', 'lock:k')).not.toBe(null)
    await lock.release()
  })

  test('a certificate that nobody vouches for', () =>
    expectDefinite({ url: encrypted.tlsUrl }, { words: /certificate|issuer/i, place: place() }))

  test('a certificate that somebody else vouches for', () =>
    expectDefinite(
      { url: encrypted.tlsUrl, tls: { ca: createAuthority('another one').cert } },
      { words: /certificate|issuer|signature/i, place: place() },
    ))

  test('a certificate for another name', () =>
    expectDefinite(
      { url: encrypted.tlsUrl, tls: { ca: encrypted.ca, servername: 'elsewhere.example' } },
      { words: /certificate|name/i, place: place() },
    ))

  test('spoken to a plain port', () =>
    expectDefinite(
      { url: `rediss://${address(open)}`, tls: { rejectUnauthorized: false } },
      { words: /./, place: address(open) },
    ))

  test('a client certificate that is asked for: shown, it is let in', async () => {
    const shown = mutual.authority.issue('client')
    const locks = create({ url: mutual.tlsUrl, tls: { ca: mutual.ca, ...shown } })
    expect(await locks.withLock('k', () => 'value')).toBe('value')
  })

  test('a client certificate that is asked for: not shown, it is refused', async () => {
    const locks = create({ url: mutual.tlsUrl, tls: { ca: mutual.ca } })
    const error = await locks.acquire('k', { timeout: 1_000 }).catch((reason) => reason)
    expectTold(error, { words: /./, place: `localhost:${mutual.tlsPort}` })
  })

  test('a key that is none is told when the manager is created, or at once', async () => {
    const made = () =>
      create({ url: encrypted.tlsUrl, tls: { ca: encrypted.ca, cert: 'no certificate', key: PASSWORD } })
    let error
    try {
      error = await made()
        .acquire('k', PATIENT)
        .catch((reason) => reason)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toBeInstanceOf(Error)
    expect(error.message).toMatch(/tls|cert|key|PEM/i)
    expectConcealed(error)
  })
})

test('a host name that does not exist', async () => {
  const host = 'no-such-host.invalid'
  const { code } = await dns.lookup(host).catch((error) => error)
  const options = { url: `redis://${host}:6380` }
  const told = { words: /./, place: `${host}:6380` }
  if (code === 'ENOTFOUND') return expectDefinite(options, told)
  // Without a working resolver nobody knows whether the name exists: that passes, so it is tried until the timeout.
  const error = await create(options)
    .acquire('k', { timeout: 300 })
    .catch((reason) => reason)
  expectTold(error, told)
})
