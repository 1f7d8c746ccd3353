'use strict'

const { randomUUID } = require('node:crypto')
const { Redis } = require('ioredis')

const PREFIX = 'express-orders:'

/**
 * The shop's data, in Redis. The stock is one number per thing, read and written in two steps: the lock is what makes
 * them one.
 * @param {string} url
 */
function openShop(url) {
  // A request is answered in time, with an error if need be; so no command waits for a server that doesn't come back.
  const redis = new Redis(url, { keyPrefix: PREFIX, commandTimeout: 2_000, maxRetriesPerRequest: 1 })
  // Each command that fails says so itself.
  redis.on('error', () => {})
  return {
    async stock(sku) {
      return Number(await redis.get(`stock:${sku}`))
    },
    async setStock(sku, left) {
      await redis.set(`stock:${sku}`, left)
    },
    /** Writes an order down. The fencing token says which turn of the lock it belongs to. */
    async record(order) {
      const recorded = { id: randomUUID(), ...order }
      await redis.rpush(`orders:${order.sku}`, JSON.stringify(recorded))
      return recorded
    },
    /** All orders for a thing, in the order in which they were recorded. */
    async orders(sku) {
      const list = await redis.lrange(`orders:${sku}`, 0, -1)
      return list.map((text) => JSON.parse(text))
    },
    /** Forgets the orders for these things, and their stock. */
    async clear(skus) {
      await redis.del(skus.flatMap((sku) => [`stock:${sku}`, `orders:${sku}`]))
    },
    async close() {
      await redis.quit().catch(() => redis.disconnect())
    },
  }
}

module.exports = { PREFIX, openShop }
