import { identity, map, merge, type Observable } from 'rxjs';
import type { Generation } from '../engine/rows/Generation.js';
import type { RowResult } from '../Row.js';
import { inputOrder } from './inputOrder.js';
import { throughStages } from './throughStages.js';

/**
 * A generation as a stream of results: the squares of its run, through its stages, to the rows that end with them; rows
 * that need no computing among them. The consumer calls `generation.delivered(result)` for each.
 */
export function generatedRows<Result = RowResult>(generation: Generation<Result>): Observable<Result> {
  const { run, options, answered$ } = generation;
  return merge(throughStages(run, options.pipeline), answered$).pipe(
    options.order === 'completion' ? identity : inputOrder(({ sequence }) => sequence),
    map(({ result }) => result),
  );
}
