'use strict'

// Jest itself fails a test during which a rejection goes unhandled, so every test file watches over this promise.
// Here a process of its own goes through much trouble with nobody listening, and must not say a word.

const { startProxy } = require('./support/proxy')
const { startWorker } = require('./support/processes')
const { start } = require('./support/server')

test('P10 quiet: trouble that nobody asks about is neither an unhandled rejection nor an output, a warning or a crash', async () => {
  const server = await start()
  const proxy = await startProxy(server.port)
  const worker = startWorker('suffer-in-silence', { url: proxy.url, rawPort: server.port })
  const steps = {
    cut: () => proxy.cut(),
    refuse: () => proxy.refuse(),
    blackHole: () => proxy.blackHole(),
    resume: () => proxy.resume(),
    restart: () => server.restart(),
  }
  for (;;) {
    const { name } = await worker.next('step')
    if (name === 'end') break
    await steps[name]()
    worker.send('done')
  }
  const { warnings, lost, unavailable } = await worker.next('report')
  expect(warnings).toEqual([])
  expect(lost).toBeGreaterThan(0)
  expect(unavailable).toBe(true)
  const { code, signal, output } = await worker.ended
  expect({ code, signal, output }).toEqual({ code: 0, signal: null, output: '' })
})

test('P10 quiet: the observer of the test above would see an unhandled rejection', async () => {
  const worker = startWorker('suffer-in-silence', { reject: true })
  const { code, output } = await worker.ended
  expect(code).toBe(1)
  expect(output).toContain('on purpose')
})
