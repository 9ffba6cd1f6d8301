/** Work went beyond what was allowed for it, in steps: the same work does so on every machine, at every time. */
export class StepLimit extends Error {
  /** @param most steps that were allowed */
  constructor(readonly most: number) {
    super(`found work of more than ${most} steps, expected at most so many`);
  }
}

/** Counts work down. A step is what takes some nanoseconds: a character that is looked at, a value that is compared. */
export class Steps {
  #left: number;

  constructor(readonly most: number) {
    this.#left = most;
  }

  /** Those that there are no more. */
  get taken(): number {
    return this.most - this.#left;
  }

  /** @throws StepLimit once there are none left */
  take(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new StepLimit(this.most);
  }
}
