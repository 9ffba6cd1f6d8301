import { Observable, type OperatorFunction } from 'rxjs';

/**
 * Restores the order of input: values wait for those with a lower sequence number. Sequences start at 0 and leave nothing out.
 *
 *     in    --2--0--1--|
 *     out   -----0--(12)|
 *
 * It holds every value that is ahead of its turn, so whoever numbers them has to bound how far ahead one can be.
 */
export function inputOrder<T>(sequenceOf: (value: T) => number): OperatorFunction<T, T> {
  return (source$) =>
    new Observable((subscriber) => {
      const early = new Map<number, T>();
      let next = 0;
      return source$.subscribe({
        next: (value) => {
          let sequence: number;
          try {
            sequence = sequenceOf(value);
          } catch (error) {
            subscriber.error(error);
            return;
          }
          early.set(sequence, value);
          for (let due = early.get(next); due !== undefined && early.delete(next); due = early.get(next)) {
            next++;
            subscriber.next(due);
          }
        },
        error: (error: unknown) => {
          subscriber.error(error);
        },
        complete: () => {
          subscriber.complete();
        },
      });
    });
}
