import { createContext, Script } from 'node:vm';

/** How long a model file's own regular expressions, or its chat template, may work on one row. Real ones take well under a millisecond. */
export const WATCHDOG_MILLISECONDS = 2_000;

/** After so many rows that had to be ended, the file is taken to be at fault and later rows are refused at once: a job must end. */
const MOST_TIMEOUTS = 3;

/** `work` took too long and was ended. */
export class WatchdogTimeout extends Error {
  constructor() {
    super(`did not come to an end within ${WATCHDOG_MILLISECONDS} ms`);
  }
}

const sandbox: { work: (() => void) | undefined } = { work: undefined };
const context = createContext(sandbox);
const script = new Script('work()');

/** Ends work of one kind when it takes too long: the one way to interrupt a regular expression that backtracks without end. */
export class Watchdog {
  #timeouts = 0;

  /**
   * Runs `work`, at a price of some 50 µs. What `work` changed before it was ended stays changed.
   * @throws WatchdogTimeout
   */
  run<T>(work: () => T): T {
    if (this.#timeouts >= MOST_TIMEOUTS) throw new WatchdogTimeout();
    let result: { value: T } | undefined;
    const outer = sandbox.work;
    sandbox.work = () => {
      result = { value: work() };
    };
    try {
      script.runInContext(context, { timeout: WATCHDOG_MILLISECONDS });
    } catch (error) {
      if (typeof error !== 'object' || error === null || !('code' in error) || error.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    } finally {
      sandbox.work = outer;
    }
    if (result === undefined) {
      this.#timeouts++;
      throw new WatchdogTimeout();
    }
    return result.value;
  }
}
