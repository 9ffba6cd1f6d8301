import { blockSchedule, type BlockState } from './blockSchedule.js';
import type { Schedule } from './Schedule.js';

/**
 * One batch at a time, to its end: what ordinary servers do under offloading. Every sweep reads all weights for one
 * batch.
 */
export function rowByRow(): Schedule<BlockState> {
  return blockSchedule({ name: 'row', refill: 'block-end', sweep: 'one-slot' });
}
