import type { Observable } from 'rxjs';
import { UsageError } from '../errors/UsageError.js';

/** What to do with a value that arrives when the queue is full. */
export type Overflow = 'error' | 'drop-oldest' | 'drop-newest';

export interface PulledOptions {
  /** Values that may wait. Default 65536. */
  readonly capacity?: number;
  /** Default `error`: the iteration throws UsageError after the values that fitted. */
  readonly overflow?: Overflow;
}

/**
 * Turns a plain Observable, which cannot be slowed down, into something that is pulled, through a bounded queue with an explicit policy for
 * overflow. Sources that can be pulled (iterables, streams) need no queue: hand them over as they are.
 *
 * @returns an iterable to be iterated once; it subscribes when iteration begins, and unsubscribes when it ends
 */
export async function* pulled<T>(source$: Observable<T>, { capacity = 65_536, overflow = 'error' }: PulledOptions = {}): AsyncGenerator<T, void, undefined> {
  const queue: T[] = [];
  let end: { readonly error?: unknown } | undefined;
  let wake: () => void = () => undefined;
  const subscription = source$.subscribe({
    next: (value) => {
      if (end) return;
      if (queue.length < capacity) queue.push(value);
      else if (overflow === 'drop-oldest') {
        queue.shift();
        queue.push(value);
      } else if (overflow === 'error') {
        end = { error: new UsageError(`more than ${capacity} values wait: the source is faster than its consumer; raise the capacity, drop values, or pass an iterable`) };
        queueMicrotask(() => {
          subscription.unsubscribe();
        });
      }
      wake();
    },
    error: (error: unknown) => {
      end ??= { error };
      wake();
    },
    complete: () => {
      end ??= {};
      wake();
    },
  });
  try {
    for (;;) {
      const value = queue.shift();
      if (value !== undefined || queue.length > 0) yield value as T;
      else if (end) break;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
    if ('error' in end) throw end.error;
  } finally {
    subscription.unsubscribe();
  }
}
