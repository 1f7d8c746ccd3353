'use strict'

/**
 * The scenarios, in the order in which they run. Each file exports `{ name, byDefault, run }`: `run({ libraries, server,
 * quick, seconds, progress })` resolves with sections `{ name, title, text, problems, raw, markdown }`. `byDefault`: it
 * runs when none is named. `markdown`, if there is any, is the section for a page of the documentation. A new one is a
 * file here and a line below.
 */
module.exports = [
  require('./solo.js'),
  require('./many.js'),
  require('./blocked.js'),
  require('./crowd.js'),
  require('./idle.js'),
  require('./held.js'),
  require('./strategies.js'),
]
