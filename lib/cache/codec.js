'use strict'

const { CacheValueError } = require('./errors')

// How values are written. Each kind of value has a letter of its own in Redis, so that a value that was written in another way
// is known for that.

/**
 * A value as it is kept: a letter, and a text or bytes.
 * @typedef {{ kind: number, payload: string | Buffer }} Written
 * @typedef {{ encode: (value: any) => string | Uint8Array, decode: (bytes: Buffer) => any }} CustomCodec
 */

const JSON_TEXT = letter('j')
const BYTES = letter('b')
const CUSTOM = letter('c')
const NULL = letter('n')
const UNDEFINED = letter('u')
const LARGEST = 10 * 1_024 * 1_024
const NOTHING = Buffer.alloc(0)

class Codec {
  /** @param {'json' | 'buffer' | CustomCodec} how */
  constructor(how) {
    this.how = how
    /** The letter of its values. */
    this.kind = how === 'json' ? JSON_TEXT : how === 'buffer' ? BYTES : CUSTOM
    /** Values are fetched as text. */
    this.text = how === 'json'
  }

  /**
   * @param {string} key
   * @param {any} value
   * @returns {Written}
   */
  write(key, value) {
    if (value === null || value === undefined) {
      return { kind: value === null ? NULL : UNDEFINED, payload: NOTHING }
    }
    const payload = this.#encode(key, value)
    const size = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length
    if (size > LARGEST) {
      throw new CacheValueError(key, `has ${size} bytes, and can have ${LARGEST} at the most`)
    }
    return { kind: this.kind, payload }
  }

  /**
   * A value of the caller's own.
   * @param {Written} written
   */
  read({ kind, payload }) {
    if (kind === NULL) return null
    if (kind === UNDEFINED) return undefined
    if (this.how === 'json') return JSON.parse(/** @type {string} */ (payload))
    const bytes = Buffer.from(payload)
    return this.how === 'buffer' ? bytes : this.how.decode(bytes)
  }

  /**
   * What a load brings that isn't to be kept.
   * @param {number} kind
   */
  nothing(kind = UNDEFINED) {
    return { kind, payload: NOTHING, spent: 0, fresh: 0 }
  }

  /** @param {number} kind */
  knows(kind) {
    return kind === this.kind || kind === NULL || kind === UNDEFINED
  }

  /**
   * @param {string} key
   * @param {any} value
   */
  #encode(key, value) {
    let written
    try {
      written =
        this.how === 'json' ? JSON.stringify(value) : this.how === 'buffer' ? value : this.how.encode(value)
    } catch (cause) {
      throw new CacheValueError(key, 'could not be encoded', cause)
    }
    if (typeof written === 'string' && this.how !== 'buffer') {
      return this.text ? written : Buffer.from(written)
    }
    if (written instanceof Uint8Array && this.how !== 'json') {
      return Buffer.from(written.buffer, written.byteOffset, written.byteLength)
    }
    const how = { json: 'JSON', buffer: 'a Buffer' }[String(this.how)] ?? 'what its codec encodes'
    throw new CacheValueError(key, `can't be written as ${how}`)
  }
}

/**
 * Whether a value says that there is nothing.
 * @param {number} kind
 */
function isNothing(kind) {
  return kind === NULL || kind === UNDEFINED
}

/** @param {string} character */
function letter(character) {
  return character.charCodeAt(0)
}

module.exports = { Codec, NOTHING, isNothing }
