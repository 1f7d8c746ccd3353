'use strict'

const { channel } = require('node:diagnostics_channel')
const { debuglog } = require('node:util')

// What others can listen to without touching the code that locks. Nothing is made for a channel that nobody listens to.

/** What happened to calls and locks; the messages are described in index.d.ts. */
const channels = {
  acquire: channel('holdfast:acquire'),
  hold: channel('holdfast:hold'),
  renew: channel('holdfast:renew'),
  lost: channel('holdfast:lost'),
  cache: channel('holdfast:cache'),
  load: channel('holdfast:load'),
}

/** `NODE_DEBUG=holdfast`: what somebody who is on call needs. */
const debug = debuglog('holdfast')

module.exports = { channels, debug }
