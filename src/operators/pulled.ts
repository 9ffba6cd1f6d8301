import { isObservable, Subject, takeUntil, type Observable } from 'rxjs';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import { oneOf, text, whole } from '../arguments/memberChecks.js';
import { defaultDiskFolder } from '../engine/open/defaultDiskFolder.js';
import { UsageError } from '../errors/UsageError.js';
import { parseBytesOrNone, type Size } from '../units.js';
import { FileQueue } from './FileQueue.js';

const OVERFLOWS = ['error', 'drop-oldest', 'drop-newest'] as const;

/** What to do with a value that arrives when the queue is full. */
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
   * What may wait in files beyond that, as plain data (a value that is none is an error; one counts for 1 KiB at
   * least); 0 for nothing. Default `1GiB`.
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
  return new PulledValues(source$, capacity, overflow, file);
}

type Step<T> = IteratorResult<T, void>;
const DONE = { done: true, value: undefined } as const;

/** By hand, as an async generator takes its `return` only after the value that it awaits. */
class PulledValues<T> implements AsyncGenerator<T, void, undefined> {
  private readonly queue: T[] = [];
  /** Who awaits a value; nobody does while some are in the queue. */
  private readonly waiting: { readonly resolve: (step: Step<T>) => void; readonly reject: (error: unknown) => void }[] =
    [];
  private end: { readonly error?: unknown } | undefined;
  private begun = false;
  private readonly stopped$ = new Subject<void>();

  constructor(
    private readonly source$: Observable<T>,
    private readonly capacity: number,
    private readonly overflow: Overflow,
    /** What came when the queue was full, all of it younger. */
    private readonly file: FileQueue<T>,
  ) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step<T>> {
    this.begin();
    if (this.queue.length > 0) return Promise.resolve({ done: false, value: this.queue.shift() as T });
    if (this.file.length > 0) {
      try {
        return Promise.resolve({ done: false, value: this.file.shift() });
      } catch (error) {
        this.fail(fileFailure(error));
      }
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      if (this.end) this.answer();
    });
  }

  return(): Promise<Step<T>> {
    this.give(undefined);
    this.stop();
    return Promise.resolve(DONE);
  }

  async throw(error: unknown): Promise<Step<T>> {
    await this.return();
    throw error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  private begin(): void {
    if (this.begun || this.end) return;
    this.begun = true;
    this.source$.pipe(takeUntil(this.stopped$)).subscribe({
      next: (value) => {
        this.take(value);
      },
      error: (error: unknown) => {
        this.end ??= { error };
        this.answer();
      },
      complete: () => {
        this.end ??= {};
        this.answer();
      },
    });
  }

  private take(value: T): void {
    const first = this.waiting.shift();
    if (first) first.resolve({ done: false, value });
    else if (this.queue.length < this.capacity && this.file.length === 0) this.queue.push(value);
    else if (this.overflow === 'drop-oldest') {
      this.queue.shift();
      this.queue.push(value);
    } else if (this.overflow === 'error') this.keep(value);
  }

  private keep(value: T): void {
    try {
      if (this.file.push(value)) return;
    } catch (error) {
      this.fail(fileFailure(error));
      return;
    }
    const waiting = this.queue.length + this.file.length;
    this.fail(
      new UsageError(
        `${waiting} values wait, and no more may: the source is faster than its consumer; raise capacity or fileBytes, drop values, or pass an iterable`,
      ),
    );
  }

  /** Ends at once: what waits would otherwise be answered first, for hours. */
  private fail(error: UsageError): void {
    this.give({ error });
    this.stop();
  }

  private give(end: { readonly error: unknown } | undefined): void {
    this.queue.length = 0;
    this.file.clear();
    this.end = end ?? {};
  }

  /** Unsubscribes, also from a source that is emitting just now. */
  private stop(): void {
    this.stopped$.next();
    this.answer();
  }

  /** Nothing more will come: tells those who wait, the first of them with the error if there is one. */
  private answer(): void {
    for (const { resolve, reject } of this.waiting.splice(0)) {
      const { end } = this;
      this.end = {};
      if (end && 'error' in end) reject(end.error);
      else resolve(DONE);
    }
  }
}

function fileFailure(error: unknown): UsageError {
  const reason = error instanceof Error ? error.message : String(error);
  return new UsageError(
    `values wait for a slow consumer, and one cannot be kept in a file: ${reason}; raise capacity, set fileBytes or folder, or pass an iterable`,
    { cause: error },
  );
}
