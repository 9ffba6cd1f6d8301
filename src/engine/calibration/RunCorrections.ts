import type { WorkDone } from '../../plan/corrections/learn.js';
import type { Corrections } from '../../plan/corrections/workKinds.js';

/**
 * By what a run's prediction was corrected, and what the run took of each kind of work: the object `corrections` of
 * `--stats`.
 */
export interface RunCorrections {
  /** Factors on seconds in the prediction, from runs before this one; empty where there were none. */
  readonly applied: Corrections;
  /** Of the same rows and policy by the profile alone. */
  readonly uncorrectedTokensPerSecond: number;
  /** Seconds of every kind of work, and those by the profile alone. */
  readonly work: WorkDone;
  /** How much of the machine the run had for itself: 1, nobody else was there, to 0. */
  readonly undisturbed: number;
  /** Whether later runs on this machine are corrected by it. */
  readonly learned: boolean;
}
