/** Work went beyond what was allowed for it, in steps: the same work does so on every machine, at every time. */
export class StepLimit extends Error {
  /** @param most steps that were allowed */
  constructor(readonly most: number) {
    super(`found work of more than ${most} steps, expected at most so many`);
  }
}

/** Steps between two moments at which others may have their turn. */
const SLICE = 2 ** 14;

/** Counts work down. A step is what takes some nanoseconds: a character that is looked at, a value that is compared. */
export class Steps {
  #left: number;
  #due = SLICE;

  constructor(readonly most: number) {
    this.#left = most;
  }

  /** Steps that have been used up. */
  get taken(): number {
    return this.most - this.#left;
  }

  /** Tells whether so many steps have been taken since this was true last that others should have their turn. */
  get due(): boolean {
    if (this.taken < this.#due) return false;
    this.#due = this.taken + SLICE;
    return true;
  }

  /** @throws StepLimit once there are none left */
  take(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new StepLimit(this.most);
  }
}
