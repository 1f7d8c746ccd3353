'use strict'

// A process that guards a counter among owners that use other libraries, and writes down when it held the lock.

const { createLocks } = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()

const { url, keyPrefix, port, key, turns, hold } = settings

async function main() {
  const client = new RespClient({ port })
  const locks = createLocks({ url, keyPrefix, timeout: 60_000 })
  await locks.ready()
  await tell('ready')
  await hear()
  const holdings = []
  for (let turn = 0; turn < turns; turn++) {
    const lock = await locks.acquire(key)
    const from = process.hrtime.bigint()
    const value = Number(await client.command('GET', 'value'))
    await new Promise((resolve) => setTimeout(resolve, hold))
    await client.command('SET', 'value', value + 1)
    const owner = `holdfast ${process.pid} ${turn}`
    holdings.push({ key, owner, from, until: process.hrtime.bigint(), fence: lock.fencingToken })
    await lock.release()
  }
  await tell('done', { holdings })
  await locks.close()
  client.close()
  process.disconnect()
}

main()
