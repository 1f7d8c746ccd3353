'use strict'

const { parseAddress } = require('./address')
const { checkBoolean, checkInteger, checkNames, checkText } = require('./checks')
const { invalidSecret, invalidType, invalidValue } = require('./invalid')

// Where locks are kept: options of createLocks() alone.

const TLS = ['ca', 'cert', 'key', 'servername', 'rejectUnauthorized']

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
  checkNames(TLS, given, 'tls', 'createLocks')
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

module.exports = { storeOptions }
