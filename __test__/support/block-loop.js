'use strict'

/** Keeps this thread's event loop busy: no timer, no I/O, no promise moves on meanwhile. */
function blockLoop(ms) {
  const end = performance.now() + ms
  while (performance.now() < end);
}

module.exports = { blockLoop }
