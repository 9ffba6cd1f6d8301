import { createContext, Script } from 'node:vm';

/** How long a model file's own regular expressions, or its chat template, may work on one row. */
export const WATCHDOG_MILLISECONDS = 2_000;

/** `work` took too long and was ended. */
export class WatchdogTimeout extends Error {
  constructor() {
    super(`did not come to an end within ${WATCHDOG_MILLISECONDS} ms`);
  }
}

const sandbox: { work: (() => void) | undefined } = { work: undefined };
const context = createContext(sandbox);
const script = new Script('work()');

/**
 * Runs `work`, and ends it when it takes too long: the one way to interrupt a regular expression that backtracks without end.
 * Costs some 50 µs. What `work` changed before it was ended stays changed.
 * @throws WatchdogTimeout
 */
export function withWatchdog<T>(work: () => T): T {
  let result: { value: T } | undefined;
  const outer = sandbox.work;
  sandbox.work = () => {
    result = { value: work() };
  };
  try {
    script.runInContext(context, { timeout: WATCHDOG_MILLISECONDS });
  } catch (error) {
    if (typeof error === 'object' && error !== null && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw new WatchdogTimeout();
    throw error;
  } finally {
    sandbox.work = outer;
  }
  if (result === undefined) throw new WatchdogTimeout();
  return result.value;
}
