'use strict'

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const { Database } = require('node-sqlite3-wasm')

const ORDERS = 20_000
const PRODUCTS = 50

/**
 * The shop's database: a SQLite file with 20 000 orders, 400 per product. One process has it open, as a database server
 * does, and all others ask that one; so what is counted here is what the whole fleet has asked for.
 * @param {number} latency how long a query takes beside the work on the file, ms: as over a network
 */
function openDatabase(latency) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-example-'))
  process.once('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
  const database = new Database(path.join(folder, 'orders.db'))
  // Nobody else opens the file, so it isn't locked anew for each statement.
  database.exec(`
    PRAGMA locking_mode = EXCLUSIVE;
    CREATE TABLE orders (id INTEGER PRIMARY KEY, product TEXT NOT NULL, amount INTEGER NOT NULL);
    CREATE INDEX by_product ON orders (product);
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ORDERS})
      INSERT INTO orders (product, amount) SELECT 'product-' || (i % ${PRODUCTS}), i * 7919 % 10000 FROM n;
  `)
  let queries = 0
  const sales = (product) =>
    database.get('SELECT count(*) AS orders, sum(amount) AS revenue FROM orders WHERE product = ?', [product])
  return {
    /** What the service asks for: slow, and counted. */
    async query(product) {
      queries++
      await sleep(latency)
      // Nobody waits for it any more.
      if (!database.isOpen) return undefined
      return sales(product)
    },
    /** The same at once and uncounted: what is right at this moment. */
    sales,
    sell(product) {
      database.run('INSERT INTO orders (product, amount) VALUES (?, ?)', [product, 4_900])
    },
    /** How many queries there were since the last call. */
    takeCount() {
      const count = queries
      queries = 0
      return count
    },
    close() {
      database.close()
    },
  }
}

module.exports = { openDatabase }
