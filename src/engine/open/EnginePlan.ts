import type { Advice } from '../../plan/document/advise.js';
import type { MachineSpeed } from '../../plan/atSpeed.js';
import type { Policy } from '../../plan/Policy.js';
import type { Prediction } from '../../plan/predict.js';
import type { Workload } from '../../plan/Workload.js';

/** By which plan an engine is opened, and why. */
export interface EnginePlan {
  /** `auto`: found for this machine; `policy`: given; `default`: nothing was planned. */
  readonly origin: 'auto' | 'policy' | 'default';
  /** Why nothing was planned, where it could have been expected. */
  readonly why?: string;
  /**
   * The block that the engine is opened with, where the memory does not hold the one that was planned, or the usual
   * one.
   */
  readonly smallerBlock?: { readonly batchSize: number; readonly batches: number; readonly tokensPerSquare: number };
  readonly workload?: Workload;
  readonly policy?: Policy;
  readonly predicted?: Prediction;
  /** How fast the machine was when it was planned for, over its kept profile; the plan is for that speed. */
  readonly machineSpeed?: MachineSpeed;
  /** Notes on what is kept of this machine and cannot be used, a line each. */
  readonly notes?: readonly string[];
  /**
   * Advice on what would be much faster, but changes results a little, so that it is not chosen unless it is allowed.
   */
  readonly recommended?: readonly Advice[];
}
