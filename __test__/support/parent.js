'use strict'

// The worker's side of processes.js.

const settings = JSON.parse(process.argv[2] ?? '{}')

/** Sends a message to the test; resolves when it has left this process, so that the process may end afterwards. */
function tell(type, more = {}) {
  return new Promise((resolve) => process.send({ type, ...more }, resolve))
}

/** The next message of the test. While somebody waits for one, the process stays alive. */
function hear() {
  return new Promise((resolve) => process.once('message', resolve))
}

/** Ends this process with the test's: for workers that would run on by themselves. */
function endWithParent() {
  process.on('disconnect', () => process.exit())
}

module.exports = { settings, tell, hear, endWithParent }
