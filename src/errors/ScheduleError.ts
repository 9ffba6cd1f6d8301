import { SpillwayError } from './SpillwayError.js';

/** The constraints that every path over the grid must keep (FlexGen, section 4.1), plus the one on completeness. */
export type PathConstraint =
  | 'left-neighbour' // a square is computed only after its left neighbour: same row, previous layer or token
  | 'inputs-on-device' // weights, cache and activations are on the device when compute starts
  | 'lifetime' // activations live until the right neighbour is computed, KV cache until the row ends
  | 'capacity' // no tier exceeds its capacity at any event
  | 'complete'; // every admitted row is computed through every layer for every token, once

/** A schedule, or a composition of stages, breaks one of the path constraints. */
export class ScheduleError extends SpillwayError {
  readonly code = 'schedule';

  constructor(
    readonly constraint: PathConstraint,
    readonly detail: string,
  ) {
    super(`the path breaks the constraint "${constraint}": ${detail}`);
  }
}
