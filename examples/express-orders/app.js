'use strict'

const express = require('express')
const {
  LockClosedError,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
  withLock,
} = require('holdfast')

/** How long an order waits for its turn, ms. Whoever waits longer is better told to come back. */
const TIMEOUT = 3_000

class SoldOut extends Error {}

/**
 * @param {ReturnType<import('./shop').openShop>} shop
 * @param {{ locked: boolean }} options
 */
function createApp(shop, { locked }) {
  const guard = locked ? withLock : withoutLock
  const app = express()
  app.use(express.json())

  // Reads, checks, works, writes: between the read and the write nobody else may sell the same thing.
  app.post('/orders', async (request, response) => {
    const { sku, quantity } = checked(request.body)
    const order = await guard(`stock:${sku}`, { timeout: TIMEOUT, ifLost: 'ignore' }, async (lock) => {
      const left = await shop.stock(sku)
      if (left < quantity) throw new SoldOut(`only ${left} of ${sku} left`)
      await pay()
      // Lost in the meantime? Then nothing is written. What was written before a loss stands: hence `ifLost` above.
      lock.assertHeld()
      await shop.setStock(sku, left - quantity)
      return shop.record({ sku, quantity, fencingToken: lock.fencingToken, waited: lock.waited })
    })
    response.status(201).json(order)
  })

  app.use(answerError)
  return app
}

function checked(body) {
  const { sku, quantity } = body ?? {}
  if (typeof sku === 'string' && /^[\w-]{1,40}$/.test(sku) && Number.isInteger(quantity) && quantity > 0) {
    return { sku, quantity }
  }
  throw Object.assign(new Error('an order has a `sku` and a `quantity`, an integer from 1'), { status: 400 })
}

/** Stands for whatever takes a while: the payment, another service. */
function pay() {
  return new Promise((resolve) => setTimeout(resolve, 2 + Math.random() * 4))
}

/** For comparison: `withLock` without a lock. */
function withoutLock(_key, _options, fn) {
  return fn({ assertHeld() {}, fencingToken: 0, waited: 0 })
}

/** What went wrong, in HTTP's words. */
function answerError(error, _request, response, _next) {
  if (error instanceof SoldOut) return response.status(409).json({ error: error.message })
  if (error.status === 400) return response.status(400).json({ error: error.message })
  if (error instanceof LockTimeoutError) {
    // Taken for all of the time: busy, not broken.
    return response.status(503).set('Retry-After', '1').json({ error: error.message })
  }
  const passing = [LockUnavailableError, LockClosedError, LockLostError]
  if (passing.some((type) => error instanceof type)) {
    return response.status(503).json({ error: error.message })
  }
  console.error(error)
  response.status(500).json({ error: 'something went wrong' })
}

module.exports = { createApp }
