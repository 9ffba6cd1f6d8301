import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** How often is looked, in milliseconds: a heap grows by some 100 MB a second at most. */
const INTERVAL = 20;
/**
 * The growth that a heap full of what is in use is allowed before it is collected once more. Where that is just below
 * the limit, the heap passes it by so much: what is kept beside the heap (`NATIVE_GROWTH_BYTES`) has to hold it.
 */
const LEAST_GROWTH_BYTES = 3 * 2 ** 20;

/** The JavaScript heap of this thread, and buffers beside it, as a limit on it sees them. */
export interface Heap {
  /** Says what it takes of the process's memory. */
  takenBytes(): number;
  /** Gives back what nobody uses. */
  collect(): void;
}

/**
 * Holds the JavaScript heap to a limit. V8 lets garbage pile up for as long as its own limit is far, which follows from
 * the machine's memory and knows of no cap: a run of some thousand sweeps has as much of it as the cap leaves for
 * everything. Where the heap comes to the limit it is collected; nothing happens below it.
 */
export class HeapLimit {
  private timer: NodeJS.Timeout | undefined;
  private next: number;

  /** @param limitBytes what the heap may take */
  constructor(
    private readonly limitBytes: number,
    private readonly heap: Heap = OWN_HEAP,
  ) {
    this.next = limitBytes;
  }

  /** Looks from now on. Keeps no process alive. */
  start(): this {
    // V8 never lets it grow that far.
    if (this.limitBytes < getHeapStatistics().heap_size_limit)
      this.timer ??= setInterval(() => {
        this.check();
      }, INTERVAL).unref();
    return this;
  }

  /** Collects what has come to the limit. Where all of that is in use it is no use to try again at once. */
  check(): void {
    if (this.heap.takenBytes() < this.next) return;
    this.heap.collect();
    this.next = Math.max(this.limitBytes, this.heap.takenBytes() + LEAST_GROWTH_BYTES);
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

let collect: (() => void) | undefined;

/** V8 collects on demand for who asks by a flag, in contexts that are made afterwards; nobody else gets to see that. */
function collector(): () => void {
  if (collect) return collect;
  setFlagsFromString('--expose-gc');
  const made = runInNewContext('gc') as (() => void) | undefined;
  setFlagsFromString('--no-expose-gc');
  return (collect = () => made?.());
}

export function heapBytes(): number {
  const { total_heap_size, external_memory, malloced_memory } = getHeapStatistics();
  return total_heap_size + external_memory + malloced_memory;
}

const OWN_HEAP: Heap = {
  takenBytes: heapBytes,
  collect: () => {
    collector()();
  },
};
