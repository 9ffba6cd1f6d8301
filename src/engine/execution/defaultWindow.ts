import type { Grid } from '../grid/Square.js';

/** Enough to keep the device's queues filled while JavaScript is busy with results. */
const LEAST = 8;

/**
 * Squares that may be under way at once where nobody says otherwise: at least two layers of a block, for the next
 * layer's weights are asked for when its first square enters.
 */
export function defaultWindow({ slots }: Pick<Grid, 'slots'>): number {
  return Math.max(LEAST, 2 * slots);
}
