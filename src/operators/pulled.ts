import { isObservable, type Observable } from 'rxjs';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import { oneOf, text, whole } from '../arguments/memberChecks.js';
import { Fifo, type Queue } from '../collections/Channel.js';
import { defaultDiskFolder } from '../engine/open/diskFolder.js';
import { UsageError } from '../errors/UsageError.js';
import { parseBytesOrNone, type Size } from '../units.js';
import { FileQueue } from './FileQueue.js';
import { channelOf } from './iterated.js';

const OVERFLOWS = ['error', 'drop-oldest', 'drop-newest'] as const;

/** The treatment of a value that arrives when the queue is full. */
export type Overflow = (typeof OVERFLOWS)[number];

export interface PulledOptions {
  /** Values that may wait in memory, at least 1. Default 65536. */
  readonly capacity?: number;
  /**
   * When no more may wait. Default `error`: the iteration throws UsageError at once, and what waits is given up. The
   * other two keep nothing in files.
   */
  readonly overflow?: Overflow;
  /**
   * The amount that may wait in files beyond that, as plain data (a value that is none is an error; one counts for 1
   * KiB at least); 0 for nothing. Default `1GiB`.
   */
  readonly fileBytes?: Size;
  /** Where those files are, which have no name and do not outlive the process. Default: in the user's cache folder. */
  readonly folder?: string;
}

const FILE_BYTES = 2 ** 30;

const CHECKS: Readonly<Record<keyof PulledOptions, Check>> = {
  capacity: whole(1),
  overflow: oneOf(...OVERFLOWS),
  folder: text('the path of a folder'),
  fileBytes: (name, value) => void parseBytesOrNone(value as Size, name),
};

/** @throws UsageError naming the option, what was found and what was expected */
export function checkPulledOptions(name: string, options: unknown): asserts options is PulledOptions {
  checkMembers(name, options, CHECKS, `${name}.`);
}

/**
 * Turns a plain Observable, which cannot be slowed down, into something that is pulled, through a bounded queue with an
 * explicit policy for overflow: what does not fit into memory waits in a file. Sources that can be pulled (iterables,
 * streams) need no queue: hand them over as they are.
 *
 * @returns an iterable to be iterated once; it subscribes when iteration begins, and unsubscribes when it ends: with
 * `return` at once, also while a value is awaited
 * @throws UsageError for something else than an Observable, or an option out of range
 */
export function pulled<T>(source$: Observable<T>, options: PulledOptions = {}): AsyncGenerator<T, void, undefined> {
  if (!isObservable(source$))
    throw new UsageError(
      `source: found ${found(source$)}, expected an Observable; what can be iterated needs no queue`,
    );
  checkPulledOptions('options', options);
  const { capacity = 65_536, overflow = 'error', fileBytes = FILE_BYTES, folder = defaultDiskFolder() } = options;
  const file = new FileQueue<T>(folder, overflow === 'error' ? parseBytesOrNone(fileBytes, 'fileBytes') : 0);
  return channelOf(source$, { queue: new OverflowQueue(capacity, overflow, file) });
}

/** A queue that says what becomes of values that arrive when it is full. */
class OverflowQueue<T> implements Queue<T> {
  private readonly memory = new Fifo<T>();

  constructor(
    private readonly capacity: number,
    private readonly overflow: Overflow,
    /** Values that came when memory was full, all of them younger. */
    private readonly file: FileQueue<T>,
  ) {}

  get length(): number {
    return this.memory.length + this.file.length;
  }

  push(value: T): void {
    if (this.memory.length < this.capacity && this.file.length === 0) this.memory.push(value);
    else if (this.overflow === 'drop-oldest') {
      this.memory.shift();
      this.memory.push(value);
    } else if (this.overflow === 'error' && !inFile(() => this.file.push(value))) {
      throw new UsageError(
        `${this.length} values wait, and no more may: the source is faster than its consumer; raise capacity or fileBytes, drop values, or pass an iterable`,
      );
    }
  }

  shift(): T {
    return this.memory.length > 0 ? this.memory.shift() : inFile(() => this.file.shift());
  }

  clear(): void {
    this.memory.clear();
    this.file.clear();
  }
}

/** @throws UsageError where a value cannot be kept in the file, or not be read there any more */
function inFile<Made>(act: () => Made): Made {
  try {
    return act();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(
      `values wait for a slow consumer, and one cannot be kept in a file: ${reason}; raise capacity, set fileBytes or folder, or pass an iterable`,
      { cause: error },
    );
  }
}
