'use strict'

// The map of the house: which layer knows which stands in src/lib.rs, and the code must keep to it.

const fs = require('node:fs')
const path = require('node:path')

const ROOT = path.join(__dirname, '..')
const MAX_LINES = 450

const read = (file) => fs.readFileSync(path.join(ROOT, file), 'utf8')

const filesBelow = (folder, pattern) =>
  fs
    .readdirSync(path.join(ROOT, folder), { recursive: true })
    .map((name) => path.join(folder, name))
    .filter((name) => pattern.test(name))

/** The lines `//!   layer -> layer, layer` of src/lib.rs: each layer and those it may know. */
function readMap(text) {
  const map = new Map()
  for (const line of text.split('\n')) {
    const [, layer, known] = line.match(/^\/\/! {3}(\w+) -> (.*)$/) ?? []
    if (layer) map.set(layer, known.trim() === '(nothing)' ? [] : known.split(',').map((name) => name.trim()))
  }
  return map
}

/** The layers that a Rust source names by `crate::layer` or `crate::{layer::…, layer}`; comments don't count. */
function layersNamedIn(source) {
  const code = source.replace(/\/\/.*$/gm, '').replace(/\/\*[\s\S]*?\*\//g, '')
  const named = new Set()
  for (const match of code.matchAll(/\bcrate\s*::\s*(\w+|\{)/g)) {
    if (match[1] === '{')
      for (const name of firstNames(code.slice(match.index + match[0].length))) named.add(name)
    else named.add(match[1])
  }
  return named
}

/** The first name of each item of a group, whose text begins after its opening brace. */
function firstNames(text) {
  const names = []
  let depth = 0
  let item = ''
  for (const char of text) {
    if (depth === 0 && (char === ',' || char === '}')) {
      const [name] = item.match(/\w+/) ?? []
      if (name) names.push(name)
      item = ''
      if (char === '}') return names
      continue
    }
    if (char === '{') depth++
    if (char === '}') depth--
    item += char
  }
  return names
}

/** src/engine/x.rs and src/engine.rs belong to the layer `engine`. */
const layerOf = (file) => path.relative('src', file).split(path.sep)[0].replace(/\.rs$/, '')

const rust = () => filesBelow('src', /\.rs$/)
const map = readMap(read('src/lib.rs'))

test('every layer stands on the map, and the map names no other', () => {
  const layers = new Set(rust().map(layerOf))
  layers.delete('lib')
  expect([...map.keys()].sort()).toEqual([...layers].sort())
  for (const known of map.values()) for (const name of known) expect([...layers]).toContain(name)
})

test('the arrows of the map lead down only: no layer knows itself by way of others', () => {
  const below = (layer, way) => {
    if (way.includes(layer)) throw new Error(`a circle: ${[...way, layer].join(' -> ')}`)
    for (const next of map.get(layer)) below(next, [...way, layer])
  }
  for (const layer of map.keys()) below(layer, [])
})

test('a layer knows those that its arrow points at, and no other', () => {
  const trespasses = []
  for (const file of rust()) {
    const layer = layerOf(file)
    if (layer === 'lib') continue
    const allowed = new Set([layer, ...(map.get(layer) ?? [])])
    for (const name of layersNamedIn(read(file)))
      if (!allowed.has(name)) trespasses.push(`${file}: crate::${name}`)
  }
  expect(trespasses).toEqual([])
})

test('the map has no arrow that nobody needs', () => {
  const used = new Map([...map.keys()].map((layer) => [layer, new Set()]))
  for (const file of rust()) for (const name of layersNamedIn(read(file))) used.get(layerOf(file))?.add(name)
  for (const [layer, known] of map)
    expect([layer, known.filter((name) => !used.get(layer).has(name))]).toEqual([layer, []])
})

test('only lib/bridge.js knows the native addon', () => {
  const loaders = ['index.js', 'index.mjs', ...filesBelow('lib', /\.(c|m)?js$/)].filter((file) =>
    // A path that is put together can only be the addon's, since everything else is required by name.
    /dlopen|createRequire|require\([^)]*\.node['"`]|require\(\s*[^'"\s)]/.test(read(file)),
  )
  expect(loaders).toEqual([path.join('lib', 'bridge.js')])
})

test(`no file is longer than ${MAX_LINES} lines`, () => {
  const files = [
    ...filesBelow('src', /\.(rs|lua)$/),
    ...filesBelow('addon', /\.rs$/),
    ...filesBelow('lib', /\.js$/),
    'index.js',
  ]
  const long = files.filter((file) => read(file).split('\n').length > MAX_LINES + 1)
  expect(long).toEqual([])
})

describe('this reading of Rust', () => {
  test.each([
    ['use crate::lease::Held;', ['lease']],
    ['use crate::{clock, lease::{Held, queue::Queue}, store::*};', ['clock', 'lease', 'store']],
    [
      'use crate::{\n  link::{self, Link},\n  wait,\n};\nfn f() -> crate::clock::Instant {}',
      ['link', 'wait', 'clock'],
    ],
    ['pub(crate) use crate :: store;', ['store']],
    ['// use crate::lease;\n/// [`crate::engine`]\n/* crate::link */', []],
    ['use some_crate::lease; use super::x;', []],
  ])('finds the layers in %p', (source, layers) => {
    expect([...layersNamedIn(source)]).toEqual(layers)
  })
})
