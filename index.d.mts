// The ES module has the very names of the CommonJS one, and no default export.
export * from './index.js'
