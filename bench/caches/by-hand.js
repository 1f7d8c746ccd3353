'use strict'

const { Redis } = require('ioredis')
const { versionOf } = require('../installed.js')

// What people write by hand: GET, and whoever finds nothing loads and does a SET. ioredis with its defaults.
async function create({ url, ttl, load }) {
  const redis = new Redis(url)
  await redis.ping()

  async function read(key) {
    const text = await redis.get(key)
    if (text !== null) return JSON.parse(text)
    const value = await load(key)
    await redis.set(key, JSON.stringify(value), 'PX', ttl)
    return value
  }

  return { read, close: () => redis.quit() }
}

module.exports = { name: 'by-hand', version: `ioredis ${versionOf('ioredis')}`, create }
