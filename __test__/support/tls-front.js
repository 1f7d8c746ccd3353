'use strict'

const net = require('node:net')
const tls = require('node:tls')

/** Speaks TLS on a port of its own in front of a plain port: for a server that was built without TLS. */
async function startTlsFront({ cert, key, ca, requestCert, target }) {
  const sockets = new Set()
  const options = { cert, key, ca, requestCert, rejectUnauthorized: requestCert }
  const front = tls.createServer(options, (outside) => {
    const inside = net.connect({ host: '127.0.0.1', port: target })
    for (const [from, to] of [
      [outside, inside],
      [inside, outside],
    ]) {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => sockets.delete(from) && to.destroy())
      from.pipe(to)
    }
  })
  await new Promise((resolve, reject) => front.once('error', reject).listen(0, '127.0.0.1', resolve))
  return {
    port: front.address().port,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => front.close(resolve))
    },
  }
}

module.exports = { startTlsFront }
