import { mergeMap, type OperatorFunction } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { Run } from '../engine/execution/Run.js';

/** Takes synchronised squares out of the window, gives their tokens to their rows, and emits the results of rows that ended. */
export function finishedRows<Result>(run: Run<Result>): OperatorFunction<IssuedSquare, Result> {
  return mergeMap((square) => run.retire(square));
}
