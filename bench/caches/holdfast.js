'use strict'

const { createLocks } = require('../..')

// Set: ttl. All else is the default.
async function create({ url, ttl, load }) {
  const locks = createLocks({ url })
  await locks.ready()
  const cache = locks.cache({ ttl })
  const loader = ({ key }) => load(key)

  return { read: (key) => cache.getOrSet(key, loader), close: () => locks.close() }
}

module.exports = { name: 'holdfast', version: require('../../package.json').version, create }
