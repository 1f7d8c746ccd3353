'use strict'

const { Redis } = require('ioredis')

const PREFIX = 'cron:'

/**
 * Begins the run of a tick, unless that tick or a later one has begun before, or a later holder of the lock was here.
 * Returns what was noted of the run before.
 */
const BEGIN = `
local tick, token, state = unpack(redis.call('hmget', KEYS[1], 'tick', 'token', 'state'))
if tick and (tonumber(tick) >= tonumber(ARGV[1]) or tonumber(token) >= tonumber(ARGV[2])) then return 'refused' end
redis.call('hset', KEYS[1], 'tick', ARGV[1], 'token', ARGV[2], 'runner', ARGV[3], 'began', ARGV[4], 'state', 'running')
redis.call('hdel', KEYS[1], 'ended')
return state or 'none'
`

/** Ends a run, unless another one has begun since. */
const COMPLETE = `
if redis.call('hget', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[1], 'state', 'completed', 'ended', ARGV[2])
return 1
`

/**
 * How each task stands, in Redis: a hash per task. It is the resource that the lock protects, and so it has a look at the
 * fencing tokens itself: a runner that stood still past its lease can neither begin a tick again nor overwrite a later run.
 * @param {string} url
 */
function openStatus(url) {
  const redis = new Redis(url, { keyPrefix: PREFIX, commandTimeout: 2_000, maxRetriesPerRequest: 1 })
  // Each command that fails says so itself.
  redis.on('error', () => {})
  redis.defineCommand('beginRun', { numberOfKeys: 1, lua: BEGIN })
  redis.defineCommand('completeRun', { numberOfKeys: 1, lua: COMPLETE })
  const keyOf = (task) => `status:${task}`
  return {
    /**
     * @param {{ task: string, tick: number, token: number, runner: number }} run
     * @returns {Promise<'refused' | 'none' | 'completed' | 'running'>} `refused`, or the state of the run before this one
     */
    begin({ task, tick, token, runner }) {
      return redis.beginRun(keyOf(task), tick, token, runner, Date.now())
    },
    /** `false`: a later run has begun. @param {{ task: string, token: number }} run */
    async complete({ task, token }) {
      return (await redis.completeRun(keyOf(task), token, Date.now())) === 1
    },
    /** `{ tick, token, runner, began, ended, state }`, all of them texts; empty before the first run. */
    of(task) {
      return redis.hgetall(keyOf(task))
    },
    async forget(tasks) {
      await redis.del(tasks.map(keyOf))
    },
    async close() {
      await redis.quit().catch(() => redis.disconnect())
    },
  }
}

module.exports = { PREFIX, openStatus }
