'use strict'

// docs/redisson.md names the test that holds each of its rows: a test that is renamed or gone is named no longer.

const fs = require('node:fs')
const path = require('node:path')

const PAGE = path.join(__dirname, '..', '..', 'docs', 'redisson.md')
const page = fs.readFileSync(PAGE, 'utf8')
const files = Object.fromEntries(
  [...page.matchAll(/^\[([\w/-]+)\]: (\S+)$/gm)].map(([, name, target]) => [
    name,
    path.join(path.dirname(PAGE), target),
  ]),
)

/** What stands in the last cell of a row: `[file]: title · another title · [other file]: title`. */
function referencesIn(cell) {
  let file
  return cell.split(' · ').map((part) => {
    const [, name, title] = part.match(/^(?:\[([\w/-]+)\]: )?(.+)$/)
    file = name ?? file
    return [file, title.trim()]
  })
}

/** The last cells of all rows that say what becomes of a behaviour. */
const cells = page
  .split('\n## ')
  .slice(1)
  .filter((section) => !section.startsWith('Calls'))
  .flatMap((section) => [...section.matchAll(/^\|.*\|([^|]*)\|$/gm)].slice(2))
  .map(([, cell]) => cell.trim())
const references = cells.filter((cell) => cell !== 'the same test').flatMap(referencesIn)
for (const [, rest] of page.matchAll(/Held by (\[.*)\.$/gm)) references.push(...referencesIn(rest))

test('every row names a test', () => {
  expect(cells.length).toBeGreaterThan(40)
  expect(cells.filter((cell) => cell !== 'the same test' && !/^\[[\w/-]+\]: ./.test(cell))).toEqual([])
})

test.each(references)('%s has the test "%s"', (file, title) => {
  const source = fs.readFileSync(files[file], 'utf8')
  const titles = [...source.matchAll(/(['"`])((?:\\.|(?!\1).)+)\1/g)].map(([, , text]) => text)
  expect(titles.some((text) => text.includes(title))).toBe(true)
})
