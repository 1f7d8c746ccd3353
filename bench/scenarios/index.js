'use strict'

/**
 * The scenarios, in the order in which they run. Each file exports `{ name, byDefault, run }`: `run({ libraries, server,
 * quick, seconds, progress })` resolves with sections `{ name, title, text, problems, raw, markdown, plots }`. `byDefault`:
 * it runs when none is named. `markdown` is the section for a page of the documentation, `plots` are its pictures, if there
 * are any: `{ file, title, svg }`. A new one is a file here and a line below.
 */
module.exports = [
  require('./solo.js'),
  require('./many.js'),
  require('./blocked.js'),
  require('./crowd.js'),
  require('./cache.js'),
  require('./fleet.js'),
  require('./relay.js'),
  require('./distance.js'),
  require('./holds.js'),
  require('./idle.js'),
  require('./held.js'),
  require('./strategies.js'),
]
