'use strict'

// npm start: a Redis of its own, the service in four processes and many clients; first without the lock, then with it.
//
//   HOLDFAST_URL=redis://… npm start        on that server instead (keys begin with express-orders:, and are removed)
//   ORDERS=2000 CLIENTS=64 npm start        more of it

const { fork } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')
const { createLocks, isLockError } = require('holdfast')
const { findRedis } = require('../redis')
const { sendOrders } = require('./load')
const { report } = require('./report')
const { openShop } = require('./shop')

const SKUS = ['tea', 'coffee', 'cocoa', 'mate']
const ORDERS = wholeNumber('ORDERS', 600)
const CLIENTS = wholeNumber('CLIENTS', 16)
/** How much there is of each thing: about half of what is ordered, so that it is sold out in the end. */
const STOCK = Math.ceil(ORDERS / SKUS.length)

async function main() {
  let redis
  let shop
  let service
  const cleanUp = async () => {
    await service?.end()
    await shop?.clear(SKUS).catch(() => {})
    await shop?.close()
    await redis?.stop()
  }
  // First: a server that is still being started ends with this process.
  onInterrupt(cleanUp)
  try {
    redis = await findRedis(createLocks)
    shop = openShop(redis.url)
    const rounds = []
    for (const lock of ['off', 'on']) {
      service = startService(redis.url, lock)
      rounds.push(await play(shop, service, lock))
    }
    report(rounds, { orders: ORDERS, clients: CLIENTS, stock: STOCK * SKUS.length })
    const [, withLock] = rounds
    if (withLock.oversold > 0 || !withLock.tokensRise) process.exitCode = 1
  } finally {
    await cleanUp()
  }
}

/** Fills the shelves, lets all clients order, and counts. */
async function play(shop, service, lock) {
  await shop.clear(SKUS)
  for (const sku of SKUS) await shop.setStock(sku, STOCK)
  const port = await service.listening
  console.log(`lock ${lock}: ${CLIENTS} clients send ${ORDERS} orders to http://127.0.0.1:${port}/orders …`)
  const orders = Array.from({ length: ORDERS }, (_, i) => ({
    sku: SKUS[i % SKUS.length],
    quantity: 1 + Math.floor(Math.random() * 3),
  }))
  const { answers, seconds } = await sendOrders({ port, clients: CLIENTS, orders })
  const stats = await service.end()
  let sold = 0
  let oversold = 0
  let tokensRise = true
  for (const sku of SKUS) {
    const recorded = await shop.orders(sku)
    const quantity = recorded.reduce((sum, order) => sum + order.quantity, 0)
    sold += quantity
    oversold += Math.max(0, quantity - STOCK)
    tokensRise &&= recorded.every((order, i) => i === 0 || order.fencingToken > recorded[i - 1].fencingToken)
  }
  return { lock, answers, seconds, stats, sold, oversold, tokensRise }
}

function startService(url, lock) {
  const env = { ...process.env, HOLDFAST_URL: url, LOCK: lock }
  const child = fork(path.join(__dirname, 'service.js'), { env })
  const exited = once(child, 'exit')
  let stats
  const listening = new Promise((resolve, reject) => {
    child.on('message', (message) => {
      if (message.type === 'listening') resolve(message.port)
      else stats = message.stats
    })
    exited.then(([code, signal]) => reject(new Error(`the service ended (${signal ?? code})`)))
  })
  listening.catch(() => {})
  return {
    /** Its port. */
    listening,
    /** Ends it as an orchestrator would, and resolves with what its locks did. */
    async end() {
      child.kill('SIGTERM')
      await exited
      return stats
    },
  }
}

function onInterrupt(cleanUp) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
      console.log(`\n${signal}: ending the service …`)
      await cleanUp()
      process.exit(signal === 'SIGINT' ? 130 : 143)
    })
  }
}

function wholeNumber(name, otherwise) {
  const text = process.env[name]
  if (!text) return otherwise
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  console.error(`${name} must be a whole number from 1; got ${text}`)
  process.exit(1)
}

main().catch((error) => {
  process.exitCode = 1
  console.error(`\n${error.message}`)
  if (isLockError(error, 'ERR_LOCK_UNAVAILABLE')) {
    console.error(
      'Start a server there, or set HOLDFAST_URL to another one, or leave it unset: then one is started.',
    )
  }
})
