'use strict'

const { invalidValue, outOfRange } = require('./invalid')

// Where a server is: the `url` option taken apart. The schemes are the field's own.

/**
 * @typedef {{ memory: string } | { path: string, username?: string, password?: string, db: number }
 *   | { host: string, port: number, username?: string, password?: string, db: number, encrypted: boolean }} Address
 */

const ALLOWED =
  'redis://[[user]:password@]host[:port][/db], rediss://… (TLS), valkey://…, valkeys://…, unix:///path/to/socket[?db=n], memory: or memory:name'

/**
 * @param {string} name what to call it in messages: `url`, or the environment variable it comes from
 * @param {string} text
 * @returns {Address}
 */
function parseAddress(name, text) {
  const memory = /^memory:(.*)$/s.exec(text)
  if (memory) return { memory: memory[1] }
  let url
  try {
    url = new URL(text)
  } catch {
    throw invalidValue(name, hidePassword(text), `a URL: ${ALLOWED}`)
  }
  switch (url.protocol) {
    case 'redis:':
    case 'valkey:':
      return server(name, text, url, false)
    case 'rediss:':
    case 'valkeys:':
      return server(name, text, url, true)
    case 'unix:':
      return socket(name, text, url)
    default:
      throw invalidValue(name, hidePassword(text), `a URL with a known scheme: ${ALLOWED}`)
  }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {URL} url
 * @param {boolean} encrypted
 * @returns {Address}
 */
function server(name, text, url, encrypted) {
  if (!text.slice(url.protocol.length).startsWith('//')) {
    throw invalidValue(name, hidePassword(text), `a URL with // after the scheme: ${ALLOWED}`)
  }
  const path = /^\/?(.*)$/.exec(url.pathname)?.[1] ?? ''
  if (url.port === '0') throw outOfRange(`port of ${name}`, 0, 'an integer from 1 to 65535')
  const query = onlyDb(name, text, url)
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: url.port === '' ? 6379 : Number(url.port),
    ...credentials(name, text, url),
    db: query ?? database(name, text, path === '' ? '0' : path),
    encrypted,
  }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {URL} url
 * @returns {Address}
 */
function socket(name, text, url) {
  const path = decode(name, text, url.pathname)
  if (url.hostname !== '' || path === '' || path === '/') {
    throw invalidValue(name, hidePassword(text), 'unix:///path/to/socket[?db=n], with three slashes')
  }
  return { path, ...credentials(name, text, url), db: onlyDb(name, text, url) ?? 0 }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {URL} url
 */
function credentials(name, text, url) {
  return {
    username: decode(name, text, url.username) || undefined,
    password: decode(name, text, url.password) || undefined,
  }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {URL} url
 */
function onlyDb(name, text, url) {
  if (url.hash !== '') throw invalidValue(name, hidePassword(text), 'a URL whose # signs are written %23')
  let db
  for (const [parameter, value] of url.searchParams) {
    if (parameter !== 'db') {
      const allowed = "a URL without parameters other than 'db'; a password goes before the host"
      throw invalidValue(name, hidePassword(text), allowed)
    }
    db = database(name, text, value)
  }
  return db
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} number
 */
function database(name, text, number) {
  if (!/^\d{1,9}$/.test(number)) {
    throw outOfRange(`database of ${name}`, hidePassword(text), 'an integer from 0')
  }
  return Number(number)
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} part
 */
function decode(name, text, part) {
  try {
    return decodeURIComponent(part)
  } catch {
    throw invalidValue(name, hidePassword(text), 'a URL whose % signs are written %25')
  }
}

/**
 * For messages.
 * @param {string} text
 */
function hidePassword(text) {
  // All up to the last @: the text may be no URL at all, and a password that isn't encoded may have an @ of its own.
  const end = text.lastIndexOf('@')
  const scheme = /^[a-z]{1,10}:?\/*/i.exec(text)?.[0] ?? ''
  const shown = end < 0 ? text : `${scheme.length < end ? scheme : ''}…${text.slice(end)}`
  // Some write it as a parameter.
  const parameters = shown.search(/[?#]/)
  return parameters < 0 ? shown : `${shown.slice(0, parameters)}?…`
}

module.exports = { parseAddress, hidePassword }
