import { isObservable, Subject, takeUntil, type Observable } from 'rxjs';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import { oneOf, whole } from '../arguments/memberChecks.js';
import { UsageError } from '../errors/UsageError.js';

const OVERFLOWS = ['error', 'drop-oldest', 'drop-newest'] as const;

/** What to do with a value that arrives when the queue is full. */
export type Overflow = (typeof OVERFLOWS)[number];

export interface PulledOptions {
  /** Values that may wait, at least 1. Default 65536. */
  readonly capacity?: number;
  /** Default `error`: the iteration throws UsageError after the values that fitted. */
  readonly overflow?: Overflow;
}

const CHECKS: Readonly<Record<keyof PulledOptions, Check>> = { capacity: whole(1), overflow: oneOf(...OVERFLOWS) };

/** @throws UsageError naming the option, what was found and what was expected */
export function checkPulledOptions(name: string, options: unknown): asserts options is PulledOptions {
  checkMembers(name, options, CHECKS, `${name}.`);
}

/**
 * Turns a plain Observable, which cannot be slowed down, into something that is pulled, through a bounded queue with an explicit policy for
 * overflow. Sources that can be pulled (iterables, streams) need no queue: hand them over as they are.
 *
 * @returns an iterable to be iterated once; it subscribes when iteration begins, and unsubscribes when it ends: with `return` at once, also while a value is
 * awaited
 * @throws UsageError for something else than an Observable, or an option out of range
 */
export function pulled<T>(source$: Observable<T>, options: PulledOptions = {}): AsyncGenerator<T, void, undefined> {
  if (!isObservable(source$)) throw new UsageError(`source: found ${found(source$)}, expected an Observable; what can be iterated needs no queue`);
  checkPulledOptions('options', options);
  const { capacity = 65_536, overflow = 'error' } = options;
  return new PulledValues(source$, capacity, overflow);
}

type Step<T> = IteratorResult<T, void>;
const DONE = { done: true, value: undefined } as const;

/** By hand, as an async generator takes its `return` only after the value that it awaits. */
class PulledValues<T> implements AsyncGenerator<T, void, undefined> {
  private readonly queue: T[] = [];
  /** Who awaits a value; nobody does while some are in the queue. */
  private readonly waiting: { readonly resolve: (step: Step<T>) => void; readonly reject: (error: unknown) => void }[] = [];
  private end: { readonly error?: unknown } | undefined;
  private begun = false;
  private readonly stopped$ = new Subject<void>();

  constructor(
    private readonly source$: Observable<T>,
    private readonly capacity: number,
    private readonly overflow: Overflow,
  ) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step<T>> {
    this.begin();
    if (this.queue.length > 0) return Promise.resolve({ done: false, value: this.queue.shift() as T });
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      if (this.end) this.answer();
    });
  }

  return(): Promise<Step<T>> {
    this.queue.length = 0;
    this.end = {};
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
    else if (this.queue.length < this.capacity) this.queue.push(value);
    else if (this.overflow === 'drop-oldest') {
      this.queue.shift();
      this.queue.push(value);
    } else if (this.overflow === 'error') {
      this.end = { error: new UsageError(`more than ${this.capacity} values wait: the source is faster than its consumer; raise the capacity, drop values, or pass an iterable`) };
      this.stop();
    }
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
