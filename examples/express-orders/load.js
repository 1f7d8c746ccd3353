'use strict'

const http = require('node:http')

/** A request that isn't answered by then counts as an error, ms. */
const PATIENCE = 15_000

/**
 * Sends orders, this many at a time, until all are answered.
 * @param {{ port: number, clients: number, orders: { sku: string, quantity: number }[] }} what
 */
async function sendOrders({ port, clients, orders }) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients })
  const rest = orders.values()
  const answers = []
  const client = async () => {
    for (const order of rest) answers.push({ ...order, ...(await post(agent, port, order)) })
  }
  const from = performance.now()
  await Promise.all(Array.from({ length: clients }, client))
  agent.destroy()
  return { answers, seconds: (performance.now() - from) / 1e3 }
}

/** Resolves with the status and what the service said, or with the name of what went wrong on the way. */
function post(agent, port, order) {
  return new Promise((resolve) => {
    const body = JSON.stringify(order)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const options = {
      agent,
      port,
      host: '127.0.0.1',
      path: '/orders',
      method: 'POST',
      headers,
      timeout: PATIENCE,
    }
    const request = http.request(options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode, answer: JSON.parse(text) }))
      response.on('error', (error) => resolve({ status: error.code }))
    })
    request.on('timeout', () => request.destroy(Object.assign(new Error(), { code: 'no answer' })))
    request.on('error', (error) => resolve({ status: error.code }))
    request.end(body)
  })
}

module.exports = { sendOrders }
