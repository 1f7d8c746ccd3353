'use strict'

// A runner of a relay: adopts the ticket that it is given, increments a counter in the server by a read and a later write, and
// hands over a new ticket. With settings.start it makes the first ticket itself.

const { createLocks } = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell } = require('../support/parent')

const { url, port, key, ttl } = settings
const locks = createLocks({ url })
const client = new RespClient({ port })

async function run(lock) {
  const value = Number(await client.command('GET', 'laps'))
  await new Promise(setImmediate)
  await client.command('SET', 'laps', value + 1)
  lock.assertHeld()
  await tell('ticket', { ticket: JSON.stringify(await lock.detach(ttl)) })
}

process.on('message', async ({ ticket, end }) => {
  // The lock is somebody else's by then: the end of this process doesn't give it back.
  if (end) return process.exit(0)
  run(await (ticket ? locks.adopt(JSON.parse(ticket)) : locks.acquire(key)))
})

locks.ready().then(() => tell('ready'))
