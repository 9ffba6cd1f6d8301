import { checkWhole } from '../arguments/checks.js';
import { map, type OperatorFunction } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/grid/Task.js';

/** A stage of the pipeline: it issues tasks for each square that passes, and passes it on at once. */
export type Stage = OperatorFunction<IssuedSquare, IssuedSquare>;

/** What a stage waits for, or has issued, where there is nothing to move. */
export const NO_EVENTS: readonly TaskEvent[] = [];

/** Options of the stages that move data. */
export interface LookAhead {
  /**
   * How many steps the stage may run ahead of computing: with 1, the next step's data move while the present one is
   * computed; with 0 a step's data move only after everything before it has been computed. A step is a square; for
   * weights it is a layer of a pass. Default 1.
   */
  readonly ahead?: number;
}

/** Makes a stage of what is to be issued for one square. */
export function stage(issue: (square: IssuedSquare) => void): Stage {
  return map((square) => {
    issue(square);
    return square;
  });
}

/** Remembers the last steps of one stage, and names the computes that a new step has to wait for. */
export class StepGate {
  private readonly steps: IssuedSquare[][] = [];

  constructor(private readonly ahead: number) {
    checkWhole('ahead', ahead, 0);
  }

  /** Opens a step for its first square. */
  open(square: IssuedSquare): void {
    this.steps.push([square]);
    if (this.steps.length > this.ahead + 2) this.steps.shift();
  }

  /** Adds a further square to the step that is open. */
  add(square: IssuedSquare): void {
    this.steps.at(-1)?.push(square);
  }

  /** What the tasks of the open step wait for. */
  before(): TaskEvent[] {
    const events: TaskEvent[] = [];
    const step = this.steps.length > this.ahead + 1 ? this.steps[0] : undefined;
    for (const square of step ?? []) if (square.events.compute) events.push(square.events.compute);
    return events;
  }
}

/** What a store stage issued last for each key, by run: the load stage of the same data waits for it. */
export class LastStores {
  private readonly runs = new WeakMap<StageContext, Map<string, readonly TaskEvent[]>>();

  constructor(private readonly keyOf: (square: IssuedSquare) => string) {}

  /** Begins anew for a run: called when its store stage is made. */
  open(run: StageContext): void {
    this.runs.set(run, new Map());
  }

  note(run: StageContext, square: IssuedSquare, events: readonly TaskEvent[]): void {
    this.runs.get(run)?.set(this.keyOf(square), events);
  }

  find(run: StageContext, square: IssuedSquare): readonly TaskEvent[] {
    return this.runs.get(run)?.get(this.keyOf(square)) ?? [];
  }
}
