import { batchTokens, layerBounds, mayBeSampled, type Grid, type GridShare, type Square } from '../grid/Square.js';
import type { RowAttention } from '../../model/RowAttention.js';
import type { Tier } from '../grid/Tier.js';
import { ringSumColumns } from '../grid/ringSum.js';
import { exchangeLengths, keptTokens, ringExchangeNumbers, routesOf } from '../grid/rowExchange.js';
import type { Move, Movement } from './movement.js';

/** A token's id, as it travels. */
const TOKEN_BYTES = 4;
/** A number of a hidden state. */
const FLOAT_BYTES = 4;

/**
 * The movements of a part of a model's layers: at its ends hidden states come from a peer and go to one, and the tokens
 * that the last layer samples come back to the first. Between them everything moves as `inner` says, whose layers count
 * from 0. Of shares of each layer all but the first one's hidden states come from there in the beginning. Pure.
 *
 * @param inner movements of as many layers as the grid has
 * @param tokenBytes hidden state of one token
 */
export function peerMovement(
  inner: Movement,
  grid: Pick<Grid, 'layers' | 'part' | 'share'>,
  tokenBytes: number,
  compute: Tier,
): Movement {
  if (!grid.part && !grid.share) return inner;
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
      return samples || grid.share ? [] : send(tokenBytes * batchTokens(square.batch));
    },
    ...(grid.share && shareMovement(grid.share, first, tokenBytes, compute)),
  };
}

/** Finds what goes round the engines that share each layer. Pure. */
function shareMovement(
  share: GridShare,
  first: number,
  tokenBytes: number,
  compute: Tier,
): Pick<Movement, 'broadcast' | 'allReduce' | 'allToAll'> {
  const send = (bytes: number): Move => ({ queue: 'peer-send', from: compute, to: 'peer', bytes });
  const { attention } = share;
  const sumBytes = FLOAT_BYTES * ringSumColumns(tokenBytes / FLOAT_BYTES, share);
  return {
    broadcast: ({ batch, layer }) =>
      share.index === 0 && layer === first ? send(tokenBytes * batchTokens(batch)) : undefined,
    allReduce: ({ batch }) => send(sumBytes * batchTokens(batch)),
    ...(attention && { allToAll: exchangesOf(attention, share, send) }),
  };
}

function exchangesOf(
  attention: RowAttention,
  share: GridShare,
  send: (bytes: number) => Move,
): NonNullable<Movement['allToAll']> {
  const lengths = {
    rows: exchangeLengths(routesOf(attention, 'rows')),
    heads: exchangeLengths(routesOf(attention, 'heads')),
  };
  return ({ batch: { rows } }, exchange, pagesOf) => {
    const kept = keptTokens(rows, (row) => pagesOf(row)?.keeper ?? 0, share.of).map(({ length }) => length);
    return send(FLOAT_BYTES * ringExchangeNumbers(lengths[exchange](kept), share));
  };
}
