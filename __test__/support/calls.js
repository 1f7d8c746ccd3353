'use strict'

// The calls that ask the server for something: the same for a test and for a thread that a test ends in the middle of one.
// `before` is what must have happened; its outcome is given to the call. A ticket is made elsewhere.

const acquireBefore = (locks, { keys, options }) => locks.acquire(keys, options)

/** @type {Record<string, { before?: Function, needsTicket?: boolean, begin: Function }>} */
const calls = {
  acquire: { begin: (locks, _, { keys, options }) => locks.acquire(keys, { timeout: 60_000, ...options }) },
  release: { before: acquireBefore, begin: (_, lock) => lock.release() },
  extend: { before: acquireBefore, begin: (_, lock, { options }) => lock.extend(options.ttl) },
  shorten: { before: acquireBefore, begin: (_, lock, { options }) => lock.extend(options.ttl / 2) },
  detach: { before: acquireBefore, begin: (_, lock, { options }) => lock.detach(options.ttl) },
  adopt: {
    needsTicket: true,
    begin: (locks, ticket, { options }) => locks.adopt(ticket, { ttl: options.ttl }),
  },
}

module.exports = { calls }
