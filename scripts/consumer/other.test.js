'use strict'
// A second test file: Jest uses workers for two or more, and loads the package once for each.

const holdfast = require('holdfast')
const { exercise, urls } = require('./exercise.js')

test.each(urls)('%s, from another file', (url) => exercise(holdfast, url))
