'use strict'

const holdfast = require('holdfast')
const { exercise, urls } = require('./exercise.js')

async function main() {
  for (const url of urls) await exercise(holdfast, url)
}

main()
