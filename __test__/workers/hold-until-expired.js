'use strict'

// Takes a lock that isn't renewed, again and again, and holds each one to its very end.

const { createLocks } = require('../..')
const { settings, tell, hear, endWithParent } = require('../support/parent')

const now = () => process.hrtime.bigint()

async function main() {
  const { url, key, ttl, turns } = settings
  const locks = createLocks({ url, ttl, autoExtend: false, timeout: 60_000 })
  const holdings = []
  await locks.ready()
  await tell('ready')
  await hear()
  for (let turn = 0; turn < turns; turn++) {
    const lock = await locks.acquire(key)
    let from
    let until
    for (;;) {
      // Read before the lock is looked at: if it is held then, it was held at this moment.
      const at = now()
      // A lock that is held for ever must not hang the test: this loop yields to nobody.
      if (!lock.held || (from && at - from > 5_000_000_000n)) break
      from ??= at
      until = at
    }
    // On a machine that is short of time, a lease can be over before its holder gets to see it.
    if (from) holdings.push({ key, owner: lock.token, from, until, fence: lock.fencingToken })
  }
  await tell('done', { holdings })
  await locks.close()
  process.disconnect()
}

endWithParent()
main()
