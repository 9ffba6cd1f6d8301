import { layerBounds, type Batch, type Grid, type Square } from '../grid/Square.js';
import type { SweepMessage } from './PeerMessage.js';

/**
 * Makes the facts of a sweep of the first engine's schedule that the engines after it have to know: the batches that
 * leave the first one's layers in it, in order, and whether each of them is one batch of its slot, wholly within the
 * sweep. If so, all of them leave without waiting for a token that one of them samples. Pure.
 *
 * @param squares of one sweep, in order
 */
export function announcementOf(squares: readonly Square[], grid: Pick<Grid, 'layers' | 'part'>): SweepMessage {
  const { last } = layerBounds(grid);
  const counts = new Map<Batch, number>();
  const slots = new Set<number>();
  const batches: Batch[] = [];
  let alone = true;
  for (const { batch, layer } of squares) {
    const count = counts.get(batch) ?? 0;
    counts.set(batch, count + 1);
    if (count === 0) {
      alone &&= !slots.has(batch.slot);
      slots.add(batch.slot);
    }
    if (layer === last) batches.push(batch);
  }
  return { kind: 'sweep', batches, interleaved: alone && [...counts.values()].every((count) => count === grid.layers) };
}

/**
 * The squares of an announced sweep over the layers of a grid, in an order that waits for nothing that could wait for
 * them. Pure.
 */
export function* squaresOf(
  { batches, interleaved }: SweepMessage,
  grid: Pick<Grid, 'layers' | 'part'>,
): Iterable<Square> {
  const { first, last } = layerBounds(grid);
  const groups = interleaved ? [batches] : batches.map((batch) => [batch]);
  for (const group of groups) {
    for (let layer = first; layer <= last; layer++) for (const batch of group) yield { batch, layer };
  }
}
