import { checkWhole } from '../arguments/checks.js';
import { defer, tap, type OperatorFunction } from 'rxjs';
import type { IssuedSquare, SquareEvents } from '../engine/execution/IssuedSquare.js';
import type { Batch, RowRange } from '../engine/grid/Square.js';
import type { TaskEvent } from '../engine/grid/Task.js';

/** A stage of the pipeline: it issues tasks for each square that passes, and passes it on at once. */
export type Stage = OperatorFunction<IssuedSquare, IssuedSquare>;

/** The events that a stage waits for, or has issued, where there is nothing to move. */
export const NO_EVENTS: readonly TaskEvent[] = [];

const begins = new WeakMap<Batch, boolean>();

/** Tells whether a batch is some row's first, and others have computed what comes before it: the same in all layers. */
export function startsAfterPrefix(batch: Batch): boolean {
  let known = begins.get(batch);
  if (known === undefined) begins.set(batch, (known = batch.rows.some(rowStartsAfterPrefix)));
  return known;
}

function rowStartsAfterPrefix({ firstPosition, sharedTokens = 0 }: RowRange): boolean {
  return sharedTokens > 0 && firstPosition === sharedTokens;
}

/** Options of the stages that move data. */
export interface LookAhead {
  /**
   * How many steps the stage may run ahead of computing: with 1, the next step's data move while the present one is
   * computed; with 0 a step's data move only after everything before it has been computed (of the cache: has attended).
   * A step is a square; for weights it is a layer of a pass. Default 1.
   */
  readonly ahead?: number;
}

/** Steps that a stage may run ahead. @throws UsageError */
export function aheadOf({ ahead = 1 }: LookAhead): number {
  checkWhole('ahead', ahead, 0);
  return ahead;
}

/**
 * Makes a stage of what is to be done for one square: it is passed on at once.
 * @param begin called for each subscription: whatever the stage remembers from square to square is made there
 * @returns a stage
 * @example
 * const counted = stage(() => {
 *   let squares = 0;
 *   return () => console.log((squares += 1));
 * });
 * engine.generate(rows, { pipeline: (run) => overlap(counted, defaultPipeline(run)) });
 */
export function stage(begin: () => (square: IssuedSquare) => void): Stage {
  return (squares$) => defer(() => squares$.pipe(tap(begin())));
}

/**
 * Remembers the last steps of one stage, and names the computes that a new step has to wait for, or those parts of them
 * that use what the stage brings.
 */
export class StepGate {
  private readonly steps: IssuedSquare[][] = [];

  constructor(
    private readonly ahead: number,
    private readonly usedBy: (events: SquareEvents) => TaskEvent | undefined = ({ compute }) => compute,
  ) {}

  /** Opens a step for its first square. */
  open(square: IssuedSquare): void {
    this.steps.push([square]);
    if (this.steps.length > this.ahead + 2) this.steps.shift();
  }

  /** Adds a further square to the step that is open. */
  add(square: IssuedSquare): void {
    this.steps.at(-1)?.push(square);
  }

  /** Lists what the tasks of the open step wait for. */
  before(): TaskEvent[] {
    const step = this.steps.length > this.ahead + 1 ? this.steps[0] : undefined;
    return (step ?? []).flatMap(({ events }) => this.usedBy(events) ?? []);
  }
}
