import { setFlagsFromString } from 'node:v8';

/**
 * How much the heap may grow between two collections, of what is alive, in percent. By V8's own measure it grows to up
 * to four times that, as if the machine's memory were its own: garbage of rows would be beyond any cap on the process.
 */
const GROWING_PERCENT = 60;

let done = false;

/**
 * Keeps what the heap holds of garbage in proportion to what is alive in it, for the whole process, from when rows turn
 * out to be large: small ones are not to pay for more collections.
 */
export function boundHeapGrowth(): void {
  if (done) return;
  done = true;
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
