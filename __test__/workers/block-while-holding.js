'use strict'

// Takes a lock, blocks its event loop for a time that is longer than the ttl, and tells what became of the lock.

const { createLocks } = require('../..')
const { blockLoop } = require('../support/block-loop')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()

async function main() {
  const { url, key, ttl, blocked } = settings
  const locks = createLocks({ url })
  const lock = await locks.acquire(key, { ttl })
  const { signal } = lock
  await tell('held')
  await hear()
  await tell('blocking')
  const from = performance.now()
  blockLoop(blocked)
  const { held, remaining } = lock
  const blockedFor = performance.now() - from
  // Had it been lost, the signal would abort in the loop's next turn.
  await new Promise(setImmediate)
  await tell('done', { held, remaining, aborted: signal.aborted, blockedFor })
  await hear()
  const answer = await lock.release()
  await tell('released', { answer })
  await locks.close()
  process.disconnect()
}

main()
