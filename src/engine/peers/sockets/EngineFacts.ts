import type { DecoderSpec } from '../../../model/DecoderSpec.js';
import { mostExchanged } from '../../grid/rowExchange.js';
import type { Grid } from '../../grid/Square.js';
import type { ResultIdentity } from '../../open/resultIdentity.js';
import type { BlockShape } from '../PeerMessage.js';
import type { LayerPlace } from './layerPlace.js';

/** The facts by which an engine has to be known before it shares a model's layers with others over sockets. */
export interface EngineFacts {
  /**
   * The facts that decide an engine's results, but for which layers it has: the same in all engines, or bits would
   * differ.
   */
  readonly identity: Omit<ResultIdentity, 'layers' | 'hiddenStates'>;
  readonly layers: LayerPlace;
  /** Its slots, as `BeginMessage.grid` has them. */
  readonly block: BlockShape;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly contextTokens: number;
  /** The size of a page of the KV cache, all layers, in bytes. */
  readonly pageBytes: number;
  /** See `mostExchanged`: where engines attend to some rows each. */
  readonly exchanged?: number;
}

/** The same of an engine. Pure. */
export function engineFacts(
  { hiddenSize, vocabularySize, contextTokens }: DecoderSpec,
  { layers: _ours, ...identity }: ResultIdentity,
  { layers: count, part, share, slots, rowsPerSlot, tokensPerSquare }: Grid,
  pageBytes: number,
): EngineFacts {
  const attention = share?.attention;
  return {
    identity,
    layers: {
      first: part?.first ?? 0,
      count,
      of: part?.of ?? count,
      ...(share && { share: share.index, shares: share.of, ...(share.attention && { byRows: true }) }),
    },
    block: { slots, rowsPerSlot, tokensPerSquare },
    hiddenSize,
    vocabularySize,
    contextTokens,
    pageBytes,
    ...(attention && { exchanged: mostExchanged(attention) }),
  };
}
