'use strict'

// A lock as people write it by hand, in a process of its own: correct, or broken in one well-known way. It exists to
// show that the history checker tells the two apart on real histories.

const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')
const { settings, tell, hear, endWithParent } = require('../support/parent')
const { RespClient } = require('../support/resp')

const { port, key, flaw, turns } = settings
const TTL = 40
const COMPARE_AND_DELETE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"
const now = () => process.hrtime.bigint()
const ms = (value) => BigInt(Math.round(value * 1e6))

async function main() {
  const client = new RespClient({ port })
  const holdings = []
  await tell('ready')
  await hear()
  for (let turn = 0; turn < turns; turn++) {
    const token = randomUUID()
    const sent = await acquire(client, token)
    const fence = flaw === 'counts by itself' ? turn + 1 : await client.command('INCR', `${key}:fence`)
    const from = now()
    // Every fourth holder overstays: its lease is over before it gives back.
    const overstays = turn % 4 === 3
    await sleep(overstays ? TTL * 1.5 : 1)
    const deadline = sent + ms(TTL - 2)
    let until = now()
    if (until > deadline) until = deadline
    if (from < until) holdings.push({ key, owner: token, from, until, fence })
    await release(client, token)
  }
  await tell('done', { holdings })
  client.close()
}

async function acquire(client, token) {
  for (;;) {
    const sent = now()
    const condition = flaw === 'ignores NX' ? [] : ['NX']
    if (await client.command('SET', key, token, 'PX', TTL, ...condition)) return sent
    await sleep(1)
  }
}

function release(client, token) {
  if (flaw === 'deletes without comparing') return client.command('DEL', key)
  return client.command('EVAL', COMPARE_AND_DELETE, 1, key, token)
}

endWithParent()
main()
