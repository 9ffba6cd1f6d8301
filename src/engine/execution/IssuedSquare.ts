import type { Square } from '../grid/Square.js';
import type { HeadOutput, TaskEvent, TaskName } from '../grid/Task.js';

/** The events issued for a square so far; the stages add to them. */
export interface SquareEvents {
  /** Compute waits for these: the loads of weights and activations. */
  readonly inputs: TaskEvent[];
  /** The part that attends waits for these, too: the loads of cache. */
  readonly cache: TaskEvent[];
  /** The last part of compute. */
  compute: TaskEvent | undefined;
  /** The part that attends: after it the square's pages of the cache are as they will be, and nobody reads them. */
  attend?: TaskEvent | undefined;
  /** The stages that have seen to their part, whether or not there was anything to move. */
  readonly stages: Set<TaskName>;
  /** Everything that was issued, in order; `synchronize` waits for all of it. */
  readonly all: TaskEvent[];
  /** Set by `serialize`: the series whose turns every further task of the square takes. */
  series: Series | undefined;
  /** The output of the head, once it has run; only in squares of the last layer. */
  head: HeadOutput | undefined;
}

/** Tasks of any squares that never run two at once: each waits for the one that was issued before it. */
export interface Series {
  /** The next task waits for these. */
  before: readonly TaskEvent[];
}

/** A square on its way through the stages. */
export interface IssuedSquare extends Square {
  readonly events: SquareEvents;
}

export function issuedSquare({ batch, layer }: Square): IssuedSquare {
  return {
    batch,
    layer,
    events: {
      inputs: [],
      cache: [],
      compute: undefined,
      stages: new Set(),
      all: [],
      series: undefined,
      head: undefined,
    },
  };
}

/**
 * Issues a task for a square: in its turn where the square's tasks are in series, and noted among what was issued for
 * the square.
 *
 * @param submit gets the events that the task waits for
 */
export function issueFor(
  { events }: IssuedSquare,
  after: readonly TaskEvent[],
  submit: (after: readonly TaskEvent[]) => TaskEvent,
): TaskEvent {
  const { series } = events;
  const event = submit(series ? [...after, ...series.before] : after);
  if (series) series.before = [event];
  events.all.push(event);
  return event;
}
