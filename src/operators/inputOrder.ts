import { Observable, type OperatorFunction } from 'rxjs';
import { InOrder } from '../collections/InOrder.js';

/**
 * Restores the order of input: values wait for those with a lower sequence number. Sequences start at 0 and leave
 * nothing out, unless the stream ends before its time: what waits then goes out first, in order, with gaps.
 *
 *     in    --2--0--1--|         --2--0--#
 *     out   -----0--(12)|        -----0--(2#)
 *
 * It holds every value that is ahead of its turn, so whoever numbers them has to bound how far ahead one can be.
 */
export function inputOrder<T>(sequenceOf: (value: T) => number): OperatorFunction<T, T> {
  return (source$) =>
    new Observable((subscriber) => {
      const order = new InOrder<T>();
      /** Nobody they wait for will come any more. */
      const flush = (): void => {
        for (const value of order.rest()) subscriber.next(value);
      };
      return source$.subscribe({
        next: (value) => {
          let sequence: number;
          try {
            sequence = sequenceOf(value);
          } catch (error) {
            flush();
            subscriber.error(error);
            return;
          }
          for (const due of order.add(sequence, value)) subscriber.next(due);
        },
        error: (error: unknown) => {
          flush();
          subscriber.error(error);
        },
        complete: () => {
          flush();
          subscriber.complete();
        },
      });
    });
}
