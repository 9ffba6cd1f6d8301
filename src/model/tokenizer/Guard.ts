import { isNativeError } from 'node:util/types';
import { RowError } from '../../errors/RowError.js';
import type { Work } from '../../collections/drained.js';
import { StepLimit, Steps } from '../../regex/Steps.js';
import type { Fields } from '../files/Fields.js';
import { ROW_LIMITS } from '../files/limits.js';
import { LimitError } from './growth.js';

/**
 * Runs what a model's files bring as patterns and programs, and turns what goes wrong there into a typed error. Work is
 * bounded by counted steps, anew for each text: what becomes of a row follows from the row and the model alone, on any
 * machine, in any company. Sizes are bounded where they are made: see `growth`.
 */
export class Guard {
  /** Field of the model's file that is at work; whoever runs something that may not be linear names it here. */
  field = 'tokenizer';
  #steps: Steps | undefined;

  constructor(readonly fields: Fields) {}

  /**
   * Work on a row.
   * @param units length of the row's text, which the steps allowed depend on
   * @throws RowError 'limit'
   */
  row<T>(units: number, work: () => T): T {
    try {
      return this.run(units, work);
    } catch (error) {
      throw this.rowError(error);
    }
  }

  /** The same of work that stops on its way: what is done meanwhile has steps of its own. @throws RowError 'limit' */
  *rowInParts<T>(units: number, work: Work<T>): Work<T> {
    try {
      return yield* this.runInParts(units, work);
    } catch (error) {
      throw this.rowError(error);
    }
  }

  /** Gives the error of a row for an error of such work. @throws whatever is no limit's */
  rowError(error: unknown): RowError {
    const { field, found, expected } = this.#limitOf(error);
    return new RowError('limit', `${this.fields.file}: ${field}: found ${found}, expected ${expected}`, {
      cause: error,
    });
  }

  /** Work on the model itself, while it is loaded. @throws ModelFileError */
  load<T>(units: number, work: () => T): T {
    try {
      return this.run(units, work);
    } catch (error) {
      const { field, found, expected } = this.#limitOf(error);
      return this.fields.refuse(field, found, expected, error);
    }
  }

  /** Runs `work` with steps of its own; inside another run those of that one count. @throws StepLimit, LimitError */
  run<T>(units: number, work: () => T): T {
    if (this.#steps) return work();
    this.#steps = new Steps(ROW_LIMITS.steps + units * ROW_LIMITS.stepsPerUnit);
    try {
      return work();
    } finally {
      this.#steps = undefined;
    }
  }

  /** `run` for work that stops on its way. @throws StepLimit, LimitError */
  *runInParts<T>(units: number, work: Work<T>): Work<T> {
    if (this.#steps) return yield* work;
    const steps = new Steps(ROW_LIMITS.steps + units * ROW_LIMITS.stepsPerUnit);
    let { field } = this;
    for (;;) {
      [this.#steps, this.field] = [steps, field];
      let part;
      try {
        part = work.next();
      } finally {
        this.#steps = undefined;
      }
      if (part.done === true) return part.value;
      ({ field } = this);
      try {
        yield part.value;
      } catch (error) {
        // Whoever gives the work up.
        work.throw(error);
      }
    }
  }

  /** The source of the steps of the work at hand. */
  get steps(): Steps {
    return this.#steps ?? new Steps(ROW_LIMITS.steps);
  }

  /**
   * Counts as a limit what JavaScript itself refuses, such as a stack for backtracking beyond its bound; throws
   * anything else on.
   */
  #limitOf(error: unknown): LimitError {
    if (error instanceof LimitError) return error;
    if (error instanceof StepLimit)
      return new LimitError(
        this.field,
        `work on one text that did not come to an end within ${error.most} steps`,
        'work in proportion to the text',
      );
    // By name: in a context of its own, as tests have it, V8's errors are not instances of this one's classes.
    if (isNativeError(error) && (error.name === 'RangeError' || error.name === 'SyntaxError')) {
      return new LimitError(
        this.field,
        `work that JavaScript gave up (${error.message})`,
        'work in proportion to the text',
      );
    }
    throw error;
  }
}
