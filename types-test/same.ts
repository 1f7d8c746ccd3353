/** `true` if the two types are identical, and not merely assignable to each other. */
export type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only for `true`: `sure<Same<A, B>>()`. */
export function sure<T extends true>(): T | undefined {
  return undefined
}
