'use strict'

// A holder that computes for five times its ttl without ever yielding keeps its lock.

const { startWorker } = require('./support/processes')
const { start } = require('./support/server')

const TTL = 2_000
const BLOCKED = 10_000

let server

beforeAll(async () => {
  server = await start()
})

test('P1 exclusion: a holder whose loop is blocked for 5 × ttl keeps its lock against a process that tries all the time', async () => {
  const key = 'blocked'
  const holder = startWorker('block-while-holding', { url: server.url, key, ttl: TTL, blocked: BLOCKED })
  await holder.next('held')
  const rival = startWorker('try-all-the-time', { url: server.url, key })
  await rival.next('trying')
  const done = holder.next('done')
  let isDone = false
  done.finally(() => {
    isDone = true
  })

  const lowest = { left: Number.POSITIVE_INFINITY, samples: 0 }
  holder.send('block')
  await holder.next('blocking')
  while (!isDone) {
    const left = await server.command('PTTL', `lock:${key}`)
    if (isDone) break
    lowest.left = Math.min(lowest.left, left)
    lowest.samples++
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const { held, remaining, aborted, blockedFor } = await done
  expect(blockedFor).toBeGreaterThanOrEqual(BLOCKED)
  expect({ held, aborted }).toEqual({ held: true, aborted: false })
  expect(remaining).toBeGreaterThan(0)
  expect(lowest.samples).toBeGreaterThan(200)
  expect(lowest.left).toBeGreaterThan(TTL / 3)

  // The rival was there all the time, got nothing, and gets it as soon as the holder gives it back.
  rival.send('report')
  const report = await rival.next('report')
  expect(report.tries).toBeGreaterThan(100)
  expect(report.got).toBe(0)
  const got = rival.next('got')
  holder.send('release')
  expect(await holder.next('released')).toMatchObject({ answer: true })
  await got
}, 60_000)
