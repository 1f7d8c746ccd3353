'use strict'

// Starts a server and does nothing more, so that a test can kill this process and look what is left.

const { tell, endWithParent } = require('../support/parent')
const { start } = require('../support/server')

endWithParent()
start().then(({ port, folder }) => tell('started', { port, folder }))
