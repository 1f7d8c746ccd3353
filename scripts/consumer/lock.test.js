'use strict'

const { isMainThread } = require('node:worker_threads')
const holdfast = require('holdfast')
const { exercise, urls } = require('./exercise.js')

test.each(urls)('%s', (url) => exercise(holdfast, url))

test('an error of the package is an error of the test’s realm', async () => {
  const manager = holdfast.createLocks({ url: 'memory:' })
  await manager.acquire('taken')
  await expect(manager.acquire('taken', { timeout: 0 })).rejects.toThrow(holdfast.LockTimeoutError)
  await expect(manager.acquire('taken', { timeout: 0 })).rejects.toBeInstanceOf(Error)
  await manager.close()
})

test('runs in the kind of thread that was asked for', () => {
  expect(isMainThread).toBe(!process.env.CONSUMER_WORKER_THREADS)
})
