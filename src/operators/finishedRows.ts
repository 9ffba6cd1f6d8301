import { Observable, type OperatorFunction } from 'rxjs';
import { ScheduleError } from '../errors/engineErrors.js';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { RunOfSquares } from '../engine/execution/SquareRun.js';

/**
 * Takes synchronised squares out of the window, gives their tokens to their rows, and emits the results of rows that
 * ended, here or with tokens from elsewhere. Stages that complete before their run has ended leave rows unanswered:
 * that is a ScheduleError. (A square that they lose cannot be told from one that they hold back, unless a later one of
 * its slot passes: the run waits for it.)
 */
export function finishedRows<Result>(run: RunOfSquares<Result>): OperatorFunction<IssuedSquare, Result> {
  return (squares$) =>
    new Observable((subscriber) => {
      const fail = (error: unknown): void => {
        run.fail(error);
        subscriber.error(error);
      };
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
            fail(error);
          }
        },
        error: fail,
        complete: () => {
          if (run.finished) subscriber.complete();
          else
            fail(
              new ScheduleError(
                'complete',
                'the stages have completed before the run has ended: rows of it are not complete, or have not come in',
              ),
            );
        },
      });
    });
}
