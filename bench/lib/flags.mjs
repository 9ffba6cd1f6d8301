// What the benchmarks' command lines share.
import { parseArgs } from 'node:util';

/** Ends the program with one sentence. */
export function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/**
 * As `parseArgs`, but a mistake ends the program with the usage; `--help` prints it. @returns the values, and
 * `number(name)` for whole numbers
 */
export function readFlags(usage, options) {
  let values;
  try {
    ({ values } = parseArgs({ options: { ...options, help: { type: 'boolean', default: false } } }));
  } catch (error) {
    fail(`${error.message}\n${usage}`);
  }
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  const number = (name, least = 1) => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < least)
      fail(`--${name}: found ${values[name]}, expected a whole number of at least ${least}`);
    return value;
  };
  return { values, number };
}

/** Fires when this process is told to stop: a run under way must not go on without it. */
export function stopSignal() {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      process.exitCode = signal === 'SIGINT' ? 130 : 143;
      stopping.abort();
    });
  }
  return stopping.signal;
}

/**
 * Runs a benchmark to its end, or until it was told to stop: what it throws then says nothing new, and its `finally`
 * blocks have tidied up.
 */
export async function runMain(main, stopping) {
  try {
    await main();
  } catch (error) {
    if (!stopping.aborted) throw error;
  }
}
