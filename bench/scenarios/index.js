'use strict'

/**
 * The scenarios, in the order in which they run. Each file exports `{ name, run }`: `run({ libraries, server, quick,
 * progress })` resolves with sections `{ name, title, text, problems, raw }`. A new one (callers that want the same key,
 * in one process or in several; waiters that idle; locks that are held for long) is a file here and a line below.
 */
module.exports = [require('./solo.js'), require('./many.js'), require('./blocked.js')]
