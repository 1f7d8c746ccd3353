'use strict'

// Takes a lock, blocks its event loop for a time that is longer than the ttl, and tells what became of the lock.

const { createLocks } = require('../..')
const { blockLoop } = require('../support/block-loop')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()

async function main() {
  const { url, key, ttl, maxStall, blocked } = settings
  const locks = createLocks({ url })
  const lock = await locks.acquire(key, { ttl, maxStall })
  const { signal } = lock
  await tell('held')
  await hear()
  await tell('blocking')
  const from = performance.now()
  blockLoop(blocked)
  const { held, remaining } = lock
  const blockedFor = performance.now() - from
  // If it was lost, the signal aborts as soon as the loop turns again.
  await new Promise((resolve) => setTimeout(resolve, 100))
  await tell('done', { held, remaining, aborted: signal.aborted, blockedFor })
  await hear()
  const answer = await lock.release()
  await tell('released', { answer })
  await locks.close()
  process.disconnect()
}

main()
