'use strict'

/** A plain text table: the first column to the left, the others to the right. A cell of `head` may have two lines. */
function table(head, rows) {
  const tall = head.some((cell) => cell.includes('\n'))
  const heads = tall ? [0, 1].map((line) => head.map((cell) => `\n${cell}`.split('\n').at(line - 2))) : [head]
  const lines = [...heads, ...rows].map((row) => row.map(String))
  const widths = head.map((_, column) => Math.max(...lines.map((row) => row[column].length)))
  const text = lines.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join('  ')
      .trimEnd(),
  )
  text.splice(heads.length, 0, widths.map((width) => '-'.repeat(width)).join('  '))
  return text.map((line) => `  ${line}`).join('\n')
}

/** The same for a page. Columns of words to the left, columns of figures to the right. */
function markdownTable(head, rows) {
  const rule = head.map((_, column) => {
    const figures = rows.every((row) => /^(≥ )?[-–∞\d]/.test(String(row[column])))
    return figures && column > 0 ? '---:' : '---'
  })
  return [head.map((cell) => cell.replace('\n', ' ')), rule, ...rows]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')
}

/** Three digits that count, thousands marked. */
function number(value) {
  if (value === null || value === undefined) return '–'
  const magnitude = Math.abs(value)
  const digits = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

function times(value) {
  return Number.isFinite(value) ? value.toFixed(2) : '–'
}

module.exports = { table, markdownTable, number, times }
