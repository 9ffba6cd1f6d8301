import { blockSchedule, type BlockState } from './blockSchedule.js';
import type { Schedule } from './Schedule.js';

/**
 * All batches of the block start together; a layer's weights serve all of them; new rows come in when the block has
 * ended (FlexGen, section 4.2).
 */
export function zigZagBlock(): Schedule<BlockState> {
  return blockSchedule({ name: 'zigzag', refill: 'block-end', sweep: 'interleaved' });
}
