import { Observable, type OperatorFunction } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { RunOfSquares } from '../engine/execution/SquareRun.js';

/** Takes synchronised squares out of the window, gives their tokens to their rows, and emits the results of rows that ended, here or with tokens from elsewhere. */
export function finishedRows<Result>(run: RunOfSquares<Result>): OperatorFunction<IssuedSquare, Result> {
  return (squares$) =>
    new Observable((subscriber) => {
      subscriber.add(
        run.returned$.subscribe({
          next: (result) => {
            subscriber.next(result);
          },
          complete: () => {
            subscriber.complete();
          },
        }),
      );
      return squares$.subscribe({
        next: (square) => {
          try {
            // Few squares end a row: this is a loop for those that do, not a stream for each square.
            for (const result of run.retire(square)) subscriber.next(result);
          } catch (error) {
            run.close(error instanceof Error ? error : undefined);
            subscriber.error(error);
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
