'use strict'

const { Redis } = require('ioredis')

const PREFIX = 'form-submit:'
/** How long a user's submission is remembered, s: a day. */
const REMEMBERED = 24 * 60 * 60

/**
 * What was submitted, in Redis: one marker per user, which is the submission itself.
 * @param {string} url
 */
function openSubmissions(url) {
  // A request is answered in time, with an error if need be; so no command waits for a server that doesn't come back.
  const redis = new Redis(url, { keyPrefix: PREFIX, commandTimeout: 2_000, maxRetriesPerRequest: 1 })
  // Each command that fails says so itself.
  redis.on('error', () => {})
  const keyOf = (user) => `submitted:${user}`
  return {
    /** What this user submitted within the last day, or null. */
    async of(user) {
      return JSON.parse(await redis.get(keyOf(user)))
    },
    /**
     * Remembers a submission for a day. `false`: there is one already. The lock has seen to it that there isn't; NX is
     * for the one case that no lock can see, a holder that stood still past its lease just before this write.
     */
    async remember(submission) {
      const text = JSON.stringify(submission)
      return (await redis.set(keyOf(submission.user), text, 'EX', REMEMBERED, 'NX')) === 'OK'
    },
    async forget(users) {
      await redis.del(users.map(keyOf))
    },
    async close() {
      await redis.quit().catch(() => redis.disconnect())
    },
  }
}

module.exports = { PREFIX, REMEMBERED, openSubmissions }
