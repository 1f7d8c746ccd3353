'use strict'

// A TCP proxy in front of a server, for what a network does to a client: it delays, swallows in one direction
// or both, resets connections and refuses new ones.

const net = require('node:net')

const running = new Set()
if (typeof afterAll === 'function') afterAll(() => Promise.all([...running].map((proxy) => proxy.stop())))

/** @param {number} target port of 127.0.0.1 @param {number} [port] to listen on, if it must be a certain one */
async function startProxy(target, port = 0) {
  const proxy = new TcpProxy(target)
  await proxy.listen(port)
  proxy.port = proxy.listener.address().port
  proxy.url = `redis://127.0.0.1:${proxy.port}`
  running.add(proxy)
  return proxy
}

class TcpProxy {
  constructor(target) {
    this.target = target
    this.pairs = new Set()
    /** How long bytes are kept on their way, ms, each way. */
    this.delay = { toServer: 0, toClient: 0 }
    /** Which way bytes are taken and never passed on. */
    this.swallowing = { toServer: false, toClient: false }
    /** Whether what is on its way to the server is delivered although its sender has hung up or was cut off. */
    this.lingering = false
    /** How many connections were accepted so far. */
    this.accepted = 0
    this.watching = { toServer: new Set(), toClient: new Set() }
  }

  listen(port) {
    this.listener = net.createServer((client) => this.accept(client))
    return new Promise((resolve, reject) =>
      this.listener.once('error', reject).listen(port, '127.0.0.1', resolve),
    )
  }

  /** @param {number} ms @param {'both' | 'toServer' | 'toClient'} [way] */
  setDelay(ms, way = 'both') {
    for (const each of waysOf(way)) this.delay[each] = ms
  }

  /**
   * Accepts and swallows from now on, on connections that are there and on new ones: what a firewall does that
   * dropped its state. @param {'both' | 'toServer' | 'toClient'} [way]
   */
  blackHole(way = 'both') {
    for (const each of waysOf(way)) this.swallowing[each] = true
  }

  /** Resolves when the next bytes come this way, before they are passed on or swallowed. @param {'toServer' | 'toClient'} way */
  arrival(way) {
    return new Promise((resolve) => this.watching[way].add(resolve))
  }

  /** Resets every connection that is there; new ones are welcome. */
  cut() {
    for (const { client, server } of this.pairs) {
      // A socket that is already being shut down can't be reset: Node would wait for its end for ever.
      if (client.writableEnded) client.destroy()
      else client.resetAndDestroy()
      if (!this.lingering) server.destroy()
    }
    if (!this.lingering) this.pairs.clear()
  }

  /** Resets every connection and refuses new ones. */
  async refuse() {
    const closed = new Promise((resolve) => this.listener.close(resolve))
    this.cut()
    await closed
  }

  /** Ends all trouble. What was swallowed is lost: the connections that lost bytes are cut, as a real client would find out. */
  async resume() {
    this.setDelay(0)
    const lost = this.swallowing.toServer || this.swallowing.toClient
    this.swallowing = { toServer: false, toClient: false }
    if (lost) this.cut()
    if (!this.listener.listening) await this.listen(this.port)
  }

  async stop() {
    if (running.delete(this) && this.listener.listening) await this.refuse()
  }

  accept(client) {
    this.accepted++
    const server = net.connect({ host: '127.0.0.1', port: this.target })
    const pair = { client, server }
    this.pairs.add(pair)
    client.setNoDelay(true)
    server.setNoDelay(true)
    const delivered = this.pass('toServer', client, server)
    this.pass('toClient', server, client)
    for (const socket of [client, server]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        // The server ends its side when it has everything, and that ends the pair.
        if (this.lingering && socket === client) return delivered().then(() => server.end())
        if (!this.pairs.delete(pair)) return
        client.destroy()
        server.destroy()
      })
    }
  }

  pass(way, from, to) {
    // Chunks leave in the order in which they came, also when the delay changes between them.
    let last = Promise.resolve()
    from.on('data', (chunk) => {
      for (const resolve of this.watching[way]) resolve()
      this.watching[way].clear()
      if (this.swallowing[way]) return
      const due = performance.now() + this.delay[way]
      last = last.then(async () => {
        const left = due - performance.now()
        if (left > 0) await new Promise((resolve) => setTimeout(resolve, left))
        if (!to.destroyed && !this.swallowing[way]) to.write(chunk)
      })
    })
    from.on('end', () => last.then(() => to.end()))
    /** Resolves when everything that came so far has been passed on. */
    return () => last
  }
}

const waysOf = (way) => (way === 'both' ? ['toServer', 'toClient'] : [way])

module.exports = { startProxy }
