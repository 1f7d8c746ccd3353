'use strict'

const { inspect } = require('node:util')

// Errors for bad arguments: they name the option, the value and what is allowed, and carry Node's own codes.

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} allowed
 */
function invalidType(name, value, allowed) {
  return make(TypeError, 'ERR_INVALID_ARG_TYPE', name, show(value), allowed)
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} allowed
 */
function invalidValue(name, value, allowed) {
  return make(TypeError, 'ERR_INVALID_ARG_VALUE', name, show(value), allowed)
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} allowed
 */
function outOfRange(name, value, allowed) {
  return make(RangeError, 'ERR_OUT_OF_RANGE', name, show(value), allowed)
}

/**
 * A value that must not be shown.
 * @param {string} name
 * @param {string} allowed
 */
function invalidSecret(name, allowed) {
  return make(TypeError, 'ERR_INVALID_ARG_TYPE', name, 'a value that is not shown', allowed)
}

/**
 * @param {ErrorConstructor} Type
 * @param {string} code
 * @param {string} name
 * @param {string} shown
 * @param {string} allowed
 */
function make(Type, code, name, shown, allowed) {
  const error = new Type(`\`${name}\` must be ${allowed}; got ${shown}`)
  return Object.assign(error, { code })
}

/** @param {unknown} value */
function show(value) {
  if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
  const text = inspect(value, { depth: 0, maxStringLength: 120, maxArrayLength: 5, breakLength: Infinity })
  return typeof value === 'object' || value === undefined ? text : `${text} (a ${typeof value})`
}

module.exports = { invalidType, invalidValue, outOfRange, invalidSecret }
