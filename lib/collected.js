'use strict'

// Locks whose handle is garbage-collected while they are held: they stay held, since a leader that keeps no handle must not
// lose the lead at random; but most of them were forgotten, so there is a warning.

/** @type {FinalizationRegistry<import('./claim').Claim>} */
const registry = new FinalizationRegistry((claim) => {
  if (!claim.isHeld) return
  const keys = claim.keys.map((key) => `'${key}'`).join(', ')
  process.emitWarning(
    `a lock on ${keys} is held, and nothing refers to it any more. It stays held; was release() forgotten?`,
    {
      code: 'HOLDFAST_LOCK_COLLECTED',
      detail:
        claim.stack === undefined
          ? 'createLocks({ captureStacks: true }) shows where it was acquired.'
          : claim.stack,
    },
  )
})

/**
 * @param {import('./lock').Lock} lock
 * @param {import('./claim').Claim} claim
 */
function watchHandle(lock, claim) {
  registry.register(lock, claim)
}

module.exports = { watchHandle }
