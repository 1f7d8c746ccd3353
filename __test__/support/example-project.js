'use strict'

// An example as its reader has it: in a folder of its own, started by its own commands.

const { execFile } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { find } = require('./server-binary')

const ROOT = path.join(__dirname, '..', '..')
const EXAMPLES = path.join(ROOT, 'examples')
/** How long an example may run, ms. */
const LIMIT = 90_000

/**
 * A folder as a user has it after `npm ci` in the example: its files, its dependencies in node_modules, and beside it what the
 * examples share. The dependencies are links, as npm itself makes for `file:../..`; the others come from wherever they
 * are installed. The test file removes it.
 * @param {string} name
 */
function createProject(name) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-examples-'))
  const source = path.join(EXAMPLES, name)
  const folder = path.join(root, name)
  const modules = path.join(folder, 'node_modules')
  fs.cpSync(source, folder, { recursive: true, filter: (file) => path.basename(file) !== 'node_modules' })
  fs.copyFileSync(path.join(EXAMPLES, 'redis.js'), path.join(root, 'redis.js'))
  fs.mkdirSync(modules)
  for (const dependency of Object.keys(require(path.join(source, 'package.json')).dependencies)) {
    fs.symlinkSync(folderOf(dependency, source), path.join(modules, dependency), 'junction')
  }
  return {
    folder,
    /** Runs one of its scripts to the end. */
    run: (script, env) => run([script], { cwd: folder, env }),
    /** Runs it as somebody does who has a server in PATH and has named none. */
    async runWithoutUrl(script, env) {
      const bin = path.join(root, 'bin')
      fs.mkdirSync(bin, { recursive: true })
      fs.symlinkSync(await find(), path.join(bin, 'redis-server'))
      return run([script], {
        cwd: folder,
        env: { PATH: `${bin}${path.delimiter}${process.env.PATH}`, ...env },
      })
    },
    remove: () => fs.rmSync(root, { recursive: true, force: true }),
  }
}

function folderOf(dependency, source) {
  if (dependency === 'holdfast') return ROOT
  return path.dirname(require.resolve(`${dependency}/package.json`, { paths: [ROOT, source] }))
}

/** The environment of somebody who has set nothing but this. */
function environment(extra) {
  const own = /^(HOLDFAST_|REDIS_URL$|NODE_OPTIONS$|FORCE_COLOR$)/
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name))), ...extra }
}

/** Runs a script to its end. */
function run(args, { cwd, env = {} }) {
  return new Promise((resolve) => {
    const options = { cwd, env: environment(env), timeout: LIMIT }
    execFile(process.execPath, args, options, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, stderr })
    })
  })
}

module.exports = { ROOT, LIMIT, createProject, environment, run }
