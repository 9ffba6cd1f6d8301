import { blockSchedule, type BlockState } from './blockSchedule.js';
import type { Schedule } from './Schedule.js';

/**
 * Rows of all ages share the block: a finished row's place goes to the next waiting row at once (FlexGen, appendix A.2,
 * the diagonal block; with rows of unequal length and one slot this is continuous batching).
 */
export function diagonalBlock(): Schedule<BlockState> {
  return blockSchedule({ name: 'diagonal', refill: 'at-once', sweep: 'interleaved' });
}
