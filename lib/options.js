'use strict'

const { parseAddress } = require('./address')
const { invalidSecret, invalidType, invalidValue, outOfRange } = require('./invalid')

// What callers may ask for. Everything is checked here, before it crosses to the addon, which trusts it.

/** @typedef {import('../index').ManagerOptions} ManagerOptions */

/**
 * What a call asks for, with defaults filled in.
 * @typedef {{ ttl: number, timeout: number, autoExtend: boolean, ifLost: 'reject' | 'ignore', signal?: AbortSignal }} CallOptions
 */

const LARGEST_TTL = 2_147_483_647
const LONGEST_KEY = 65_536

/** @type {CallOptions} */
const DEFAULTS = { ttl: 10_000, timeout: 10_000, autoExtend: true, ifLost: 'reject' }

const LOCK = ['ttl', 'autoExtend']
const NAMES = {
  acquire: [...LOCK, 'timeout', 'signal'],
  tryAcquire: [...LOCK, 'signal'],
  withLock: [...LOCK, 'timeout', 'signal', 'ifLost'],
  tryWithLock: [...LOCK, 'signal', 'ifLost'],
  manager: [
    ...LOCK,
    'timeout',
    'ifLost',
    'strategy',
    'url',
    'username',
    'password',
    'db',
    'tls',
    'keyPrefix',
    'commandTimeout',
  ],
  tls: ['ca', 'cert', 'key', 'servername', 'rejectUnauthorized'],
  close: ['drain'],
  ready: ['timeout'],
}

/** Options that are planned and would be missed if they were ignored. */
const LATER = new Set([
  'captureStacks',
  'cluster',
  'detectDeadlock',
  'fair',
  'maxHold',
  'maxStall',
  'minHold',
  'owner',
  'quorum',
  'reentrant',
  'replicas',
  'sentinel',
  'turn',
])

/** @param {unknown} key */
function checkKey(key) {
  if (typeof key !== 'string') {
    if (Array.isArray(key))
      throw invalidType('key', key, 'a string; several keys are not available in this version')
    throw invalidType('key', key, 'a string')
  }
  if (key.length === 0) throw outOfRange('key', key, 'a string that is not empty')
  if (key.length * 3 > LONGEST_KEY && Buffer.byteLength(key) > LONGEST_KEY) {
    throw outOfRange(
      'key',
      key,
      `a string of at most 64 KiB, in UTF-8; it has ${Buffer.byteLength(key)} bytes`,
    )
  }
  if (!(/** @type {any} */ (key).isWellFormed())) {
    throw invalidValue('key', key, 'a well-formed string: one without lone surrogates')
  }
}

/** @param {unknown} fn */
function checkCallback(fn) {
  if (typeof fn !== 'function') throw invalidType('fn', fn, 'a function, and the last argument')
}

/**
 * @param {'acquire' | 'tryAcquire' | 'withLock' | 'tryWithLock'} call
 * @param {any} given
 * @param {CallOptions} defaults
 * @returns {CallOptions}
 */
function callOptions(call, given, defaults) {
  if (given === undefined) return defaults
  checkNames(NAMES[call], given, 'options', call)
  const { ttl, timeout, autoExtend, ifLost, signal } = given
  const options = { ...defaults }
  if (ttl !== undefined) options.ttl = checkTtl('ttl', ttl)
  if (timeout !== undefined) options.timeout = checkTimeout('timeout', timeout)
  if (autoExtend !== undefined) options.autoExtend = checkBoolean('autoExtend', autoExtend)
  if (ifLost !== undefined) options.ifLost = checkIfLost(ifLost)
  if (signal !== undefined) options.signal = checkSignal(signal)
  return options
}

/**
 * @param {any} given
 * @param {NodeJS.ProcessEnv} env
 */
function managerOptions(given, env) {
  if (given === undefined) given = {}
  checkNames(NAMES.manager, given, 'options', 'createLocks')
  const { ttl, timeout, autoExtend, ifLost, strategy, keyPrefix, commandTimeout } = given
  /** @type {CallOptions} */
  const defaults = {
    ttl: ttl === undefined ? DEFAULTS.ttl : checkTtl('ttl', ttl),
    timeout: timeout === undefined ? DEFAULTS.timeout : checkTimeout('timeout', timeout),
    autoExtend: autoExtend === undefined ? DEFAULTS.autoExtend : checkBoolean('autoExtend', autoExtend),
    ifLost: ifLost === undefined ? DEFAULTS.ifLost : checkIfLost(ifLost),
  }
  if (strategy !== undefined && strategy !== 'backoff') {
    throw invalidValue('strategy', strategy, "'backoff', the only one that is available in this version")
  }
  const store = {
    ...storeOptions(given, env),
    keyPrefix: keyPrefix === undefined ? 'lock:' : checkText('keyPrefix', keyPrefix),
    commandTimeout:
      commandTimeout === undefined ? 2_000 : checkInteger('commandTimeout', commandTimeout, 10, 60_000),
  }
  return { defaults, store }
}

/**
 * @param {any} given
 * @param {NodeJS.ProcessEnv} env
 */
function storeOptions(given, env) {
  const { url, username, password, db, tls } = given
  const variable = ['HOLDFAST_URL', 'REDIS_URL'].find((name) => env[name])
  let address
  if (url !== undefined) {
    if (typeof url !== 'string') throw invalidType('url', url, 'a string')
    address = parseAddress('url', url)
  } else {
    address = variable
      ? parseAddress(variable, env[variable] ?? '')
      : parseAddress('url', 'redis://127.0.0.1:6379')
  }
  if ('memory' in address) {
    for (const name of ['username', 'password', 'db', 'tls']) {
      if (given[name] !== undefined)
        throw invalidValue(name, '…', 'absent with `memory:`, which has no server')
    }
    return { memory: address.memory, db: 0 }
  }
  const encrypted = 'encrypted' in address && address.encrypted
  if (tls !== undefined && !encrypted) {
    throw invalidValue('tls', '…', 'absent unless `url` begins with rediss: or valkeys:')
  }
  if (password !== undefined && (typeof password !== 'string' || password === '')) {
    throw invalidSecret('password', 'a string that is not empty')
  }
  const user = username === undefined ? address.username : checkText('username', username)
  const secret = password ?? address.password
  if (user !== undefined && secret === undefined) {
    throw invalidSecret(
      'password',
      'a string, since there is a user name; a password alone is written redis://:password@host',
    )
  }
  return {
    ...('path' in address ? { path: address.path } : { host: address.host, port: address.port }),
    username: user,
    password: secret,
    db: db === undefined ? address.db : checkInteger('db', db, 0, 999_999_999),
    tls: encrypted ? tlsOptions(tls) : undefined,
  }
}

/** @param {any} given */
function tlsOptions(given = {}) {
  checkNames(NAMES.tls, given, 'tls', 'createLocks')
  const { ca, cert, key, servername, rejectUnauthorized } = given
  if ((cert === undefined) !== (key === undefined)) {
    throw invalidValue(
      'tls',
      cert === undefined ? '`key` alone' : '`cert` alone',
      'given `cert` and `key` together',
    )
  }
  const texts =
    ca === undefined ? undefined : (Array.isArray(ca) ? ca : [ca]).map((one) => pem('tls.ca', one))
  return {
    ca: texts?.join('\n'),
    cert: cert === undefined ? undefined : pem('tls.cert', cert),
    key: key === undefined ? undefined : pem('tls.key', key),
    servername: servername === undefined ? undefined : checkText('tls.servername', servername),
    rejectUnauthorized:
      rejectUnauthorized === undefined || checkBoolean('tls.rejectUnauthorized', rejectUnauthorized),
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function pem(name, value) {
  const text = Buffer.isBuffer(value) ? value.toString('latin1') : value
  if (typeof text !== 'string' || !text.includes('-----BEGIN ')) {
    throw invalidSecret(name, 'a string or Buffer in PEM form')
  }
  return text
}

/**
 * @param {readonly string[]} allowed
 * @param {any} given
 * @param {string} what
 * @param {string} call
 */
function checkNames(allowed, given, what, call) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalidType(what, given, `an object of ${call}'s options`)
  }
  for (const name in given) {
    if (allowed.includes(name) || given[name] === undefined) continue
    if (LATER.has(name)) throw unknownOption(name, call, 'is not available in this version')
    const near = allowed.find((other) => distance(name.toLowerCase(), other.toLowerCase()) <= 2)
    if (near) throw unknownOption(name, call, `does not exist: did you mean \`${near}\`?`)
    const elsewhere = NAMES.manager.includes(name) ? ' It belongs to createLocks().' : ''
    throw unknownOption(name, call, `does not exist.${elsewhere} There are: ${allowed.join(', ')}`)
  }
}

/**
 * @param {string} name
 * @param {string} call
 * @param {string} why
 */
function unknownOption(name, call, why) {
  return Object.assign(new TypeError(`the option \`${name}\` of ${call} ${why}`), {
    code: 'ERR_INVALID_ARG_VALUE',
  })
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkTtl(name, value) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number of milliseconds')
  if (Number.isInteger(value) && value >= 100 && value <= LARGEST_TTL) return value
  const hint = value > 0 && value < 100 ? `; \`${name}\` is in milliseconds` : ''
  throw outOfRange(name, value, `an integer of milliseconds from 100 to ${LARGEST_TTL}${hint}`)
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkTimeout(name, value) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number of milliseconds')
  if (value >= 0) return value
  throw outOfRange(name, value, 'a number of milliseconds from 0, or Infinity')
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {number} min
 * @param {number} max
 */
function checkInteger(name, value, min, max) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number')
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw outOfRange(name, value, `an integer from ${min} to ${max}`)
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkBoolean(name, value) {
  if (typeof value !== 'boolean') throw invalidType(name, value, 'true or false')
  return value
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkText(name, value) {
  if (typeof value !== 'string') throw invalidType(name, value, 'a string')
  if (value.length > 1_024 || !(/** @type {any} */ (value).isWellFormed())) {
    throw invalidValue(name, value, 'a well-formed string of at most 1 024 characters')
  }
  return value
}

/** @param {unknown} value @returns {'reject' | 'ignore'} */
function checkIfLost(value) {
  if (value !== 'reject' && value !== 'ignore') throw invalidValue('ifLost', value, "'reject' or 'ignore'")
  return value
}

/** @param {any} value @returns {AbortSignal} */
function checkSignal(value) {
  // By shape: a signal may come from another realm, or from a package that has its own.
  if (
    typeof value !== 'object' ||
    value === null ||
    typeof value.aborted !== 'boolean' ||
    typeof value.addEventListener !== 'function'
  ) {
    throw invalidType('signal', value, 'an AbortSignal')
  }
  return value
}

/** @param {any} given */
function closeOptions(given) {
  if (given === undefined) return { drain: 0 }
  checkNames(NAMES.close, given, 'options', 'close')
  return { drain: given.drain === undefined ? 0 : checkTimeout('drain', given.drain) }
}

/** @param {any} given */
function readyOptions(given) {
  if (given === undefined) return { timeout: DEFAULTS.timeout }
  checkNames(NAMES.ready, given, 'options', 'ready')
  return { timeout: given.timeout === undefined ? DEFAULTS.timeout : checkTimeout('timeout', given.timeout) }
}

/**
 * How many letters must be added, dropped or changed to turn one word into the other (Levenshtein 1965).
 * @param {string} a
 * @param {string} b
 */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}

module.exports = {
  checkKey,
  checkCallback,
  checkTtl,
  callOptions,
  managerOptions,
  closeOptions,
  readyOptions,
}
