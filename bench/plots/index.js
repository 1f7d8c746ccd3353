'use strict'

/** Pictures of figures, as SVG. They follow the reader's light or dark theme by themselves. */
module.exports = {
  ...require('./bars.js'),
  ...require('./distribution.js'),
  ...require('./scatter.js'),
}
