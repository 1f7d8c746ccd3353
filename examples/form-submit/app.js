'use strict'

const { randomUUID } = require('node:crypto')
const { setTimeout: pause } = require('node:timers/promises')
const { LockClosedError, LockLostError, LockUnavailableError, tryWithLock } = require('holdfast')

/** The longest body that is read, characters. */
const LONGEST = 10_000

class BadRequest extends Error {}

/**
 * Handles `POST /submissions { user, text }`.
 * @param {ReturnType<import('./submissions').openSubmissions>} submissions
 * @param {{ delivery: number }} options how long the delivery takes, ms
 */
function createApp(submissions, { delivery }) {
  return async (request, response) => {
    try {
      if (request.method !== 'POST' || request.url !== '/submissions') return answer(response, 404)
      const { status, body } = await submit(await read(request))
      answer(response, status, body)
    } catch (error) {
      answerError(response, error)
    }
  }

  /** One at a time per user, and nobody waits: whoever comes while the first is at work is told so at once. */
  async function submit({ user, text }) {
    const { acquired, result } = await tryWithLock(`submit:${user}`, { ifLost: 'ignore' }, async (lock) => {
      // Inside the lock: outside of it the first may finish between this look and our turn.
      const earlier = await submissions.of(user)
      if (earlier) return alreadySubmitted(earlier)
      await deliver(text)
      // Lost in the meantime? Then somebody else may be at it. What was written before a loss stands: hence `ifLost` above.
      lock.assertHeld()
      // The token tells under which turn of the lock it was submitted: each turn has a greater one than the one before.
      const submission = {
        id: randomUUID(),
        user,
        fencingToken: lock.fencingToken,
        at: new Date().toISOString(),
      }
      if (await submissions.remember(submission)) return { status: 201, body: submission }
      return alreadySubmitted(await submissions.of(user))
    })
    return acquired ? result : { status: 409, body: { error: 'being submitted' } }
  }

  /** Stands for whatever takes a while and shouldn't be done twice: a mail, a ticket, an order at a supplier. */
  async function deliver(_text) {
    await pause(delivery)
  }
}

function alreadySubmitted(earlier) {
  return { status: 409, body: { error: 'already submitted', id: earlier?.id } }
}

async function read(request) {
  let text = ''
  for await (const part of request.setEncoding('utf8')) {
    text += part
    if (text.length > LONGEST) throw new BadRequest(`a submission has at most ${LONGEST} characters`)
  }
  let form
  try {
    form = JSON.parse(text)
  } catch {
    // Refused below.
  }
  const valid = /^[\w-]{1,40}$/.test(form?.user) && typeof form?.text === 'string'
  if (!valid) throw new BadRequest('a submission has a `user` and a `text`')
  return form
}

function answer(response, status, body = {}, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

/** What went wrong, in HTTP's words. */
function answerError(response, error) {
  if (error instanceof BadRequest) return answer(response, 400, { error: error.message })
  const passing = [LockUnavailableError, LockClosedError, LockLostError]
  if (passing.some((type) => error instanceof type)) {
    return answer(response, 503, { error: error.message }, { 'retry-after': '1' })
  }
  console.error(error)
  answer(response, 500, { error: 'something went wrong' })
}

module.exports = { createApp }
