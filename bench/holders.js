'use strict'

/** Many locks that this process holds, each by whatever of the library keeps it alive, until it is told to let go. */
class Holders {
  #lock
  #lost = 0
  #letGo
  #over = new Promise((resolve) => {
    this.#letGo = resolve
  })
  #all

  constructor(lock) {
    this.#lock = lock
  }

  /** Resolves when all are held. */
  async take(keys) {
    let missing = keys.length
    await new Promise((resolve, reject) => {
      const work = async (isLost) => {
        if (--missing === 0) resolve()
        await this.#over
        if (isLost()) this.#lost++
      }
      const holding = keys.map((key) => this.#lock.hold(key, work))
      // Later a lock that was lost makes some libraries reject, too, after its holder has been told.
      for (const each of holding) each.catch(reject)
      this.#all = Promise.allSettled(holding)
    })
  }

  /** Gives all back. Resolves with how many of them were lost by then, as the library says. */
  async release() {
    this.#letGo()
    await this.#all
    return { lost: this.#lost }
  }
}

module.exports = { Holders }
