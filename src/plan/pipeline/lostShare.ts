import type { HardwareProfile } from '../HardwareProfile.js';

/** Seconds in which a machine gives one thread a second of a processor. */
export function threadSeconds({ machine: { processors = 1 } }: HardwareProfile): number {
  return 1 / Math.min(1, processors);
}

/**
 * The share of the computing that a machine loses while it hands over: where all of its processors compute, one of them
 * does not meanwhile.
 */
export function lostShare({ machine: { processors = Infinity }, cpu }: HardwareProfile, threads = cpu.threads): number {
  return threads < processors ? 0 : 1 / processors;
}
