import { Observable } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { RunOfSquares } from '../engine/execution/SquareRun.js';

/**
 * The squares of a run, pulled from its schedule: one enters when the window has a credit and its rows have the pages
 * that it writes. They are emitted without waiting for the device; `synchronize` and `finishedRows` give the credits
 * back. To be subscribed to once.
 */
export function squares<Result>(run: RunOfSquares<Result>): Observable<IssuedSquare> {
  return new Observable((subscriber) => {
    run.connect(subscriber);
    return () => {
      run.close();
    };
  });
}
