import { SpillwayError } from './SpillwayError.js';

/** The native addon could not be loaded, or refused a call. */
export class NativeError extends SpillwayError {
  readonly code = 'native';
}

/** A task failed on its device, e.g. a read error on disk. The run ends; rows that were finished are unaffected. */
export class TaskError extends SpillwayError {
  readonly code = 'task';

  /** @param task what was being done, e.g. `load_weight pass 3 layer 12 slot 0` */
  constructor(
    readonly task: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(`${task}: ${reason}`, options);
  }
}

/**
 * The engine of the layers before or after failed, went away, or sent what does not fit. The run ends; rows that were
 * finished are unaffected.
 */
export class PeerError extends SpillwayError {
  readonly code = 'peer';
}

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
