'use strict'
// Makes the tarballs to publish, in a folder; the working tree stays as it is.
//
//   node scripts/pack.js [folder]        default: dist/
//
// holdfast-<version>.tgz holds no binary; it names one package per platform as an optional dependency, of
// which npm installs the fitting one. Each machine makes the package of the platform it built for.
// Prints the paths, one a line: the root's, then the platform's.

const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { triple } = require('../lib/platform.js')

const root = path.join(__dirname, '..')
const manifest = require('../package.json')

/** The platforms that a release has a binary for. */
const published = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64-msvc',
]

const scoped = (name) => `@${manifest.name}/${name}`

function npm(args, cwd) {
  // Through a shell on Windows, where npm is a script.
  const options = { cwd, encoding: 'utf8', shell: process.platform === 'win32' }
  return JSON.parse(execFileSync('npm', [...args, '--json', '--ignore-scripts'], options))
}

function writeManifest(folder, content) {
  fs.writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(content, null, 2)}\n`)
}

/** The files that npm would take from the working tree, less the binary. */
function stageRoot(folder) {
  const [{ files }] = npm(['pack', '--dry-run'], root)
  for (const { path: name } of files) {
    if (name.endsWith('.node')) continue
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true })
    fs.copyFileSync(path.join(root, name), path.join(folder, name))
  }
  // What is left is of use to those who install it; the only script is the one for building from source.
  const { devDependencies, allowScripts, scripts, ...rest } = manifest
  writeManifest(folder, {
    ...rest,
    scripts: { build: scripts.build },
    optionalDependencies: Object.fromEntries(published.map((name) => [scoped(name), manifest.version])),
  })
}

function stagePlatform(folder) {
  const name = triple()
  const binary = `${manifest.name}.${name}.node`
  const [platform, arch, abi] = name.split('-')
  const libc = { gnu: 'glibc', musl: 'musl' }[abi]
  fs.copyFileSync(path.join(root, binary), path.join(folder, binary))
  fs.copyFileSync(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'))
  fs.writeFileSync(
    path.join(folder, 'README.md'),
    `# ${scoped(name)}\n\nThe native addon of \`${manifest.name}\` for ${name}. Install \`${manifest.name}\`, not this.\n`,
  )
  writeManifest(folder, {
    name: scoped(name),
    version: manifest.version,
    description: `The native addon of ${manifest.name} for ${name}`,
    license: manifest.license,
    author: manifest.author,
    engines: manifest.engines,
    os: [platform],
    cpu: [arch],
    ...(libc && { libc: [libc] }),
    main: binary,
    files: [binary],
  })
}

/**
 * @param {string} output the folder to put the tarballs in
 * @returns {{ root: string, platform: string }} their paths
 */
function pack(output) {
  const destination = path.resolve(output)
  fs.mkdirSync(destination, { recursive: true })
  const make = (stage) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-pack-'))
    try {
      stage(folder)
      const [{ filename }] = npm(['pack', '--pack-destination', destination], folder)
      return path.join(destination, filename)
    } finally {
      fs.rmSync(folder, { recursive: true, force: true })
    }
  }
  return { root: make(stageRoot), platform: make(stagePlatform) }
}

module.exports = { pack, platformPackage: scoped(triple()) }

if (require.main === module) {
  const made = pack(process.argv[2] ?? path.join(root, 'dist'))
  console.log(`${made.root}\n${made.platform}`)
}
