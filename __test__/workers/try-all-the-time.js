'use strict'

// Tries to take a lock again and again without a pause worth the name, by single attempts and by waiting.

const { setTimeout: sleep } = require('node:timers/promises')
const { createLocks } = require('../..')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()

async function main() {
  const { url, key } = settings
  const locks = createLocks({ url })
  let tries = 0
  let got = 0
  const waiting = locks.acquire(key, { timeout: 60_000 }).then(() => got++)
  await locks.ready()
  await tell('trying')
  hear().then(() => tell('report', { tries, got }))
  while (got === 0) {
    if (await locks.tryAcquire(key)) got++
    tries++
    await sleep(5)
  }
  await tell('got')
  await waiting.catch(() => {})
}

main()
