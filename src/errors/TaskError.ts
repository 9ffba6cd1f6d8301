import { SpillwayError } from './SpillwayError.js';

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
