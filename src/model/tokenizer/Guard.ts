import { readFileSync } from 'node:fs';
import { isNativeError } from 'node:util/types';
import { createContext, Script } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { RowError } from '../../errors/RowError.js';
import type { Fields } from '../files/Fields.js';
import { ROW_LIMITS } from '../files/limits.js';
import { LimitError } from './growth.js';

/**
 * Known work needs no clock up to so many UTF-16 units, counted anew for each step that goes through them
 * (`ChainCost`): some ten milliseconds.
 */
const SHORT = 2 ** 18;

/** Above this length the time that is allowed is more than one waits for an answer to Ctrl-C. */
const INTERRUPTIBLE = 2 ** 17;

/**
 * After each run that had to be ended the next one gets a quarter of the time, down to a 64th: a file that is at fault
 * shall not keep a job busy for days.
 */
const MOST_QUARTERINGS = 3;

/**
 * So many runs that ended by themselves make one good that had to be ended: patterns that fail on some texts alone are
 * no better for the others.
 */
const RUNS_A_QUARTERING = 64;

/** So often work is begun again with all of the time, where this thread had not even half of it to itself. */
const MOST_STARVED = 2;

const sandbox: { work: (() => void) | undefined } = { work: undefined };
const context = createContext(sandbox);
const script = new Script('work()');

/**
 * Runs what a model's files bring as patterns and programs, and turns what goes wrong there into a typed error. Time is
 * bounded by V8's own interrupt, the one that also ends a regular expression in the middle of its backtracking; a
 * worker thread would do, too, but a message there and back for each row costs more, and engines that are linear by
 * construction (RE2) have no look-ahead, which most pre-tokenizers need. Sizes are bounded where they are made: see
 * `growth`.
 */
export class Guard {
  /** Field of the model's file that is at work; whoever runs something that may not be linear names it here. */
  field = 'tokenizer';
  #quarterings = 0;
  #running = false;

  /** @param threadTime processor time that this thread has had, in milliseconds; undefined where nobody knows */
  constructor(
    readonly fields: Fields,
    private readonly threadTime: () => number | undefined = threadMilliseconds,
  ) {}

  /**
   * Work on a row.
   * @param units length of the row's text, which the time allowed depends on
   * @param cost units that are gone through for each of these, at most, as of `ChainCost.work`; Infinity where nobody
   * knows
   * @param once as of `run`
   * @throws RowError 'limit'
   */
  row<T>(units: number, cost: number, work: () => T, once = false): T {
    try {
      return this.isShort(units, cost) ? work() : this.run(units, work, once);
    } catch (error) {
      throw this.rowError(error);
    }
  }

  /** Whether work, as `row` has it, needs no clock. */
  isShort(units: number, cost: number): boolean {
    return cost < Infinity && units * cost <= SHORT;
  }

  /** What an error of such work is to its row. @throws whatever is no limit's */
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

  /**
   * Runs `work` against the clock, at a price of some 50 µs. What `work` changed before it was ended stays changed.
   * Where a busy machine kept this thread from having that time, `work` is begun again, with more if less was left than
   * at first: no good row pays for a bad one, or for what else runs here. Nobody looks at the thread's time before the
   * first such end (it costs half as much as the clock), so that work is begun again to know.
   * @param once whether `work` cannot be begun again: then a quarter of the time is the least
   * @throws LimitError when its time is over; InterruptedError, for long texts, when SIGINT comes, which is then sent
   * once more
   */
  run<T>(units: number, work: () => T, once = false): T {
    // Inside another run its clock counts.
    if (this.#running) return work();
    const full = ROW_LIMITS.milliseconds + (units * ROW_LIMITS.microsecondsPerUnit) / 1000;
    const before = this.#quarterings > 0 && !once ? this.threadTime() : undefined;
    const quarterings = Math.min(Math.ceil(this.#quarterings), before === undefined ? 1 : MOST_QUARTERINGS);
    const timeoutAt = (times: number): number => Math.ceil(full / 4 ** times);
    for (let times = quarterings, had = before, starved = 0; starved <= MOST_STARVED;) {
      const result = this.#timed(units, timeoutAt(times), work);
      if (result !== undefined) {
        this.#quarterings = Math.max(0, this.#quarterings - 1 / RUNS_A_QUARTERING);
        return result.value;
      }
      const now = once ? undefined : this.threadTime();
      if (now === undefined || (had !== undefined && now - had > timeoutAt(times) / 2)) break;
      had = now;
      if (times > 0) times -= 1;
      else starved += 1;
    }
    this.#quarterings = Math.min(MOST_QUARTERINGS, Math.ceil(this.#quarterings) + 1);
    throw new LimitError(
      this.field,
      `work on one text that did not come to an end within ${timeoutAt(quarterings)} ms`,
      'work in proportion to the text',
    );
  }

  /** @returns undefined where the time was over */
  #timed<T>(units: number, timeout: number, work: () => T): { readonly value: T } | undefined {
    let result: { value: T } | undefined;
    const outer = sandbox.work;
    sandbox.work = () => {
      result = { value: work() };
    };
    this.#running = true;
    try {
      script.runInContext(context, { timeout, breakOnSigint: isMainThread && units > INTERRUPTIBLE });
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
        // Whoever listens for the signal, or its default, has not had it.
        process.kill(process.pid, 'SIGINT');
        throw new InterruptedError('SIGINT');
      }
      if (code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    } finally {
      this.#running = false;
      sandbox.work = outer;
    }
    return result;
  }

  /**
   * What JavaScript itself refuses, such as a stack for backtracking beyond its bound, counts as a limit; anything else
   * is thrown on.
   */
  #limitOf(error: unknown): LimitError {
    if (error instanceof LimitError) return error;
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

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}

/**
 * Processor time that this thread has had, in milliseconds, at a price of some 20 µs; undefined where the system does
 * not say (not Linux).
 */
export function threadMilliseconds(): number | undefined {
  try {
    const nanoseconds = Number.parseInt(readFileSync('/proc/thread-self/schedstat', 'latin1'), 10);
    // Kernels without these statistics say 0.
    return nanoseconds > 0 ? nanoseconds / 1e6 : undefined;
  } catch {
    return undefined;
  }
}
