import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What is really held: the heap after a collection. */
export function liveHeapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  // Another thread frees the buffers that the first collection lets go of, and `arrayBuffers` counts them until it has:
  // a second collection waits for that thread.
  collect();
  return process.memoryUsage().heapUsed;
}
