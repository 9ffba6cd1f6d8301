import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What is really held: the heap after a collection. */
export function liveHeapBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}
