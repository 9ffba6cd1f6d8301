import type { Observable } from 'rxjs';

/**
 * A stream as something to pull. Values wait until they are taken; what bounds their number is `onTaken`, by which the
 * source learns how many are still waiting.
 *
 * @param onTaken called with a value that is handed to the consumer
 * @param settled awaited before the iteration ends, in whatever way
 */
export async function* iterated<T>(
  source$: Observable<T>,
  onTaken: (value: T) => void,
  settled: () => Promise<void>,
): AsyncGenerator<T, void, undefined> {
  const queue: T[] = [];
  let head = 0;
  let end: { readonly error?: unknown } | undefined;
  let wake: () => void = () => undefined;
  const subscription = source$.subscribe({
    next: (value) => {
      queue.push(value);
      wake();
    },
    error: (error: unknown) => {
      end = { error };
      wake();
    },
    complete: () => {
      end = {};
      wake();
    },
  });
  try {
    for (;;) {
      while (head < queue.length) {
        const value = queue[head++] as T;
        if (head > 1024) head -= queue.splice(0, head).length;
        onTaken(value);
        yield value;
      }
      if (end) break;
      await new Promise<void>((resolve) => (wake = resolve));
    }
    if ('error' in end) throw end.error;
  } finally {
    subscription.unsubscribe();
    await settled();
  }
}
