'use strict'

const { readFileSync } = require('node:fs')
const { join } = require('node:path')

/** The installed version of a dependency. Read from the file, because not every package exports its package.json. */
function versionOf(name) {
  return JSON.parse(readFileSync(join(__dirname, 'node_modules', name, 'package.json'), 'utf8')).version
}

module.exports = { versionOf }
