import { isNativeError } from 'node:util/types';
import { createContext, Script } from 'node:vm';

const sandbox: { work: (() => void) | undefined } = { work: undefined };
const context = createContext(sandbox);
const script = new Script('work()');

/**
 * Does work whose time depends on somebody else's pattern. V8's own interrupt ends it, also inside of a regular
 * expression that backtracks; the clock costs some 50 µs.
 * @returns undefined where it did not come to an end, or to the end of the stack
 */
export function withinTime<T>(milliseconds: number, work: () => T): { readonly value: T } | undefined {
  let result: { value: T } | undefined;
  const outer = sandbox.work;
  sandbox.work = () => {
    result = { value: work() };
  };
  try {
    script.runInContext(context, { timeout: milliseconds });
    return result;
  } catch (error) {
    // By name: in a context of its own, as tests have it, V8's errors are not instances of this one's classes.
    if (
      isNativeError(error) &&
      (error.name === 'RangeError' || (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    )
      return undefined;
    throw error;
  } finally {
    sandbox.work = outer;
  }
}
