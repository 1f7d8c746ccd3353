'use strict'

// npm start: a Redis of its own, the service in two processes, and users who press the button more than once.
//
//   HOLDFAST_URL=redis://… npm start        on that server instead (keys begin with form-submit:, and are removed)

const { fork } = require('node:child_process')
const { once } = require('node:events')
const http = require('node:http')
const path = require('node:path')
const { createLocks, isLockError } = require('holdfast')
const { findRedis } = require('../redis')
const { openSubmissions } = require('./submissions')

const PROCESSES = 2
const USERS = ['ada', 'ben', 'cleo', 'dan', 'eve', 'finn']
/** How often each presses the button at once, and then again when an answer has come. */
const AT_ONCE = 5
const AGAIN = 2

async function main() {
  let redis
  let submissions
  const services = []
  const cleanUp = async () => {
    await Promise.all(services.map(end))
    await submissions?.forget(USERS).catch(() => {})
    await submissions?.close()
    await redis?.stop()
  }
  // First: a server that is still being started ends with this process.
  onInterrupt(cleanUp)
  try {
    redis = await findRedis(createLocks)
    submissions = openSubmissions(redis.url)
    await submissions.forget(USERS)
    const env = { ...process.env, HOLDFAST_URL: redis.url, PORT: '0' }
    for (let i = 0; i < PROCESSES; i++) services.push(fork(path.join(__dirname, 'service.js'), { env }))
    const ports = await Promise.all(services.map(listening))
    console.log(`${PROCESSES} processes, ${USERS.length} users; each presses ${AT_ONCE} times at once`)
    console.log(`and ${AGAIN} times more when the first answer of success has come\n`)
    const outcomes = await Promise.all(USERS.map((user) => press(user, ports)))
    if (!report(outcomes)) process.exitCode = 1
  } finally {
    await cleanUp()
  }
}

/** A user who isn't patient. Resolves with all answers, in their order. */
async function press(user, ports) {
  const post = (i) => submit(ports[i % ports.length], { user, text: 'I would like to take part.' })
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => post(i)))
  for (let i = 0; i < AGAIN; i++) answers.push(await post(i))
  return { user, answers }
}

/** Prints what came of it. Returns whether each user has submitted once, and got no other answer than these three. */
function report(outcomes) {
  const kinds = ['submitted', 'being submitted', 'already submitted']
  const line = (cells) => console.log(`  ${cells.map((cell) => String(cell).padEnd(22)).join('')}`.trimEnd())
  line(['user', '201', '409 being submitted', '409 already submitted'])
  let right = true
  for (const { user, answers } of outcomes) {
    const names = answers.map(({ status, body }) => (status === 201 ? 'submitted' : body.error))
    const counts = kinds.map((kind) => names.filter((name) => name === kind).length)
    line([user, ...counts])
    right &&= counts[0] === 1 && counts.reduce((sum, count) => sum + count) === names.length
  }
  const refused = outcomes.flatMap(({ answers }) => answers.filter(({ status }) => status === 409))
  const slowest = Math.max(...refused.map(({ took }) => took)).toFixed(0)
  console.log(`\n${right ? 'Each has submitted once' : 'NOT EACH HAS SUBMITTED ONCE'}.`)
  console.log(`The slowest refusal came after ${slowest} ms: nobody waits for the lock.`)
  return right
}

async function submit(port, form) {
  const from = performance.now()
  const headers = { 'content-type': 'application/json' }
  const request = http.request({ host: '127.0.0.1', port, path: '/submissions', method: 'POST', headers })
  request.end(JSON.stringify(form))
  const [response] = await once(request, 'response')
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return { status: response.statusCode, body: JSON.parse(text), took: performance.now() - from }
}

async function listening(service) {
  const ended = once(service, 'exit').then(([code, signal]) => {
    throw new Error(`the service ended (${signal ?? `exit code ${code}`})`)
  })
  const [{ port }] = await Promise.race([once(service, 'message'), ended])
  ended.catch(() => {})
  return port
}

async function end(service) {
  if (service.exitCode !== null || service.signalCode !== null) return
  service.kill('SIGTERM')
  await once(service, 'exit')
}

function onInterrupt(cleanUp) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
      console.log(`\n${signal}: ending the service …`)
      await cleanUp()
      process.exit(signal === 'SIGINT' ? 130 : 143)
    })
  }
}

main().catch((error) => {
  process.exitCode = 1
  console.error(`\n${error.message}`)
  if (isLockError(error, 'ERR_LOCK_UNAVAILABLE')) {
    console.error(
      'Start a server there, or set HOLDFAST_URL to another one, or leave it unset: then one is started.',
    )
  }
})
