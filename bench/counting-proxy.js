'use strict'

const { connect, createServer } = require('node:net')

/**
 * A TCP proxy in front of a server that counts the requests which clients send, by name. What a script calls inside
 * the server isn't a request. What is timed never runs through it, except where next to nothing is sent. `onRequest` hears
 * of each.
 */
async function start(target, onRequest = () => {}) {
  const counts = new Map()
  const count = (name) => {
    counts.set(name, (counts.get(name) ?? 0) + 1)
    onRequest(name)
  }
  const sockets = new Set()

  const proxy = createServer((client) => {
    const server = connect(target, '127.0.0.1')
    const requests = new RequestReader(count)
    for (const [from, to] of [
      [client, server],
      [server, client],
    ]) {
      from.setNoDelay(true)
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
    client.on('data', (chunk) => requests.push(chunk))
  })

  await new Promise((resolve, reject) => {
    proxy.once('error', reject)
    proxy.listen(0, '127.0.0.1', resolve)
  })

  return {
    url: `redis://127.0.0.1:${proxy.address().port}`,
    reset: () => counts.clear(),
    counts: () => Object.fromEntries(counts),
    total: () => [...counts.values()].reduce((sum, count) => sum + count, 0),
    stop() {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => proxy.close(resolve))
    },
  }
}

/** Reads the client's side of RESP: arrays of bulk strings, cut into chunks anywhere. Reports the first string of each. */
class RequestReader {
  #report
  #rest = Buffer.alloc(0)
  /** Bulk strings that the current request still has to bring. */
  #pending = 0
  #first = false

  constructor(report) {
    this.#report = report
  }

  push(chunk) {
    let data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    for (;;) {
      const end = data.indexOf('\r\n')
      if (end === -1) break
      const line = data.toString('latin1', 0, end)
      if (this.#pending === 0) {
        if (line[0] !== '*') throw new Error(`not a RESP request: ${line.slice(0, 40)}`)
        this.#pending = Number(line.slice(1))
        this.#first = true
        data = data.subarray(end + 2)
      } else {
        if (line[0] !== '$') throw new Error(`not a RESP bulk string: ${line.slice(0, 40)}`)
        const length = Number(line.slice(1))
        if (data.length < end + 2 + length + 2) break
        if (this.#first) this.#report(data.toString('latin1', end + 2, end + 2 + length).toUpperCase())
        this.#first = false
        this.#pending--
        data = data.subarray(end + 2 + length + 2)
      }
    }
    this.#rest = data
  }
}

module.exports = { start }
