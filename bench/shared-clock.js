'use strict'

/** Milliseconds on a clock that all processes of this machine share. */
function now() {
  return Number(process.hrtime.bigint()) / 1e6
}

module.exports = { now }
