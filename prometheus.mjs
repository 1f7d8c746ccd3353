import prometheus from './prometheus.js'

export const { register } = prometheus
