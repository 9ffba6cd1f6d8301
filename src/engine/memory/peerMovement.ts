import { batchTokens, layerBounds, mayBeSampled, type Grid, type Square } from '../grid/Square.js';
import type { Tier } from '../grid/Tier.js';
import type { Move, Movement } from './movement.js';

/** A token's id, as it travels. */
const TOKEN_BYTES = 4;

/**
 * The movements of a part of a model's layers: at its ends hidden states come from a peer and go to one, and the tokens
 * that the last layer samples come back to the first. Between them everything moves as `inner` says, whose layers count
 * from 0. Pure.
 *
 * @param inner movements of as many layers as the grid has
 * @param tokenBytes hidden state of one token
 */
export function peerMovement(
  inner: Movement,
  grid: Pick<Grid, 'layers' | 'part'>,
  tokenBytes: number,
  compute: Tier,
): Movement {
  if (!grid.part) return inner;
  const { first, last, embeds, samples } = layerBounds(grid);
  const local = ({ batch, layer }: Square): Square => ({ batch, layer: layer - first });
  const receive = (bytes: number): Move[][] =>
    bytes === 0 ? [] : [[{ queue: 'peer-receive', from: 'peer', to: compute, bytes }]];
  const send = (bytes: number): Move[][] => [[{ queue: 'peer-send', from: compute, to: 'peer', bytes }]];
  return {
    loadWeight: (square) => inner.loadWeight(local(square)),
    loadCache: (square, pagesOf) => inner.loadCache(local(square), pagesOf),
    storeCache: (square, pagesOf) => inner.storeCache(local(square), pagesOf),
    loadActivation: (square) => {
      if (square.layer !== first) return inner.loadActivation(local(square));
      return receive(
        embeds
          ? samples
            ? 0
            : TOKEN_BYTES * square.batch.rows.filter(mayBeSampled).length
          : tokenBytes * batchTokens(square.batch),
      );
    },
    storeActivation: (square) => {
      if (square.layer !== last) return inner.storeActivation(local(square));
      return samples ? [] : send(tokenBytes * batchTokens(square.batch));
    },
  };
}
