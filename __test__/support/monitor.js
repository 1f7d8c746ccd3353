'use strict'

// What a server executes, in its own order (MONITOR): the event to wait for when the question is whether,
// or when, a command has arrived.

let marks = 0

/** @param {import('./server').Server} server */
async function monitor(server) {
  const lines = []
  const waiting = new Set()
  const client = server.connect()
  await client.monitor((line) => {
    lines.push(line)
    for (const waiter of waiting) waiter(line)
  })
  /** Resolves with the next line that contains `text`. */
  const next = (text) =>
    new Promise((resolve) => {
      const waiter = (line) => {
        if (!line.includes(text)) return
        waiting.delete(waiter)
        resolve(line)
      }
      waiting.add(waiter)
    })
  return {
    lines,
    next,
    /** The lines of requests: without what scripts did. */
    requests: () => lines.filter((line) => !isInScript(line) && !line.includes('"end mark ')),
    /** Resolves when everything that was executed until now stands in `lines`. */
    async flush() {
      const mark = `end mark ${++marks}`
      const passed = next(mark)
      await server.command('ECHO', mark)
      await passed
    },
    close: () => client.close(),
  }
}

/** Whether this line is of a script's call, which no client sent. */
const isInScript = (line) => /^\S+ \[\d+ lua\] /.test(line)

module.exports = { monitor, isInScript }
