import { blockSchedule, type BlockRules, type BlockState } from './blockSchedule.js';
import type { Schedule } from './Schedule.js';

/** A schedule that policies, options and the command line know by name, with what planning for it needs to know. */
export interface NamedSchedule extends BlockRules {
  readonly create: () => Schedule;
  /** For help texts. */
  readonly summary: string;
}

/** All of them, by the names that they give themselves: the one place that a further one is entered in. */
export const BLOCK_SCHEDULES = {
  row: { create: rowByRow, summary: 'one batch to its end', refill: 'block-end', sweep: 'one-slot' },
  zigzag: { create: zigZagBlock, summary: 'blocks of batches', refill: 'block-end', sweep: 'interleaved' },
  diagonal: {
    create: diagonalBlock,
    summary: 'a finished row is replaced at once',
    refill: 'at-once',
    sweep: 'interleaved',
  },
} as const satisfies Readonly<Record<string, NamedSchedule>>;

export type ScheduleName = keyof typeof BLOCK_SCHEDULES;
export const SCHEDULE_NAMES = Object.keys(BLOCK_SCHEDULES) as readonly ScheduleName[];

/** Undefined for schedules of the user's. */
export function scheduleNamed(name: string): ScheduleName | undefined {
  return SCHEDULE_NAMES.find((each) => each === name);
}

/**
 * One batch at a time, to its end: what ordinary servers do under offloading. Every sweep reads all weights for one
 * batch.
 */
export function rowByRow(): Schedule<BlockState> {
  return blockSchedule('row', BLOCK_SCHEDULES.row);
}

/**
 * All batches of the block start together; a layer's weights serve all of them; new rows come in when the block has
 * ended (FlexGen, section 4.2).
 */
export function zigZagBlock(): Schedule<BlockState> {
  return blockSchedule('zigzag', BLOCK_SCHEDULES.zigzag);
}

/**
 * Rows of all ages share the block: a finished row's place goes to the next waiting row at once (FlexGen, appendix A.2,
 * the diagonal block; with rows of unequal length and one slot this is continuous batching).
 */
export function diagonalBlock(): Schedule<BlockState> {
  return blockSchedule('diagonal', BLOCK_SCHEDULES.diagonal);
}
