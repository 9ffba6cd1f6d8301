import type { DecoderSpec } from '../DecoderSpec.js';
import { sameLayers } from './specs.js';

/** The sizes that GPT-NeoX, Falcon and GPT-2 models state of themselves; the rest is common to them. */
export type PlainSizes = Pick<
  DecoderSpec,
  | 'family'
  | 'layers'
  | 'hiddenSize'
  | 'vocabularySize'
  | 'contextTokens'
  | 'heads'
  | 'kvHeads'
  | 'headDim'
  | 'feedForwardSize'
  | 'position'
> & { epsilon: number; parallel: boolean; activation: DecoderSpec['feedForward']['activation'] };

/**
 * The table of GPT-NeoX, Falcon and GPT-2: layer norms, a feed-forward block without a gate, branches side by side or
 * one after the other.
 */
export function plainDecoder({ epsilon, parallel, activation, ...sizes }: PlainSizes): DecoderSpec {
  return {
    ...sizes,
    norm: { kind: 'layer', epsilon },
    residual: parallel ? 'parallel' : 'pre',
    finalNorm: true,
    embedding: { size: sizes.hiddenSize, scale: 1 },
    attention: { scale: sizes.headDim ** -0.5, qkNorm: 'none' },
    feedForward: { kind: 'plain', activation },
    layerSpecs: sameLayers(sizes.layers),
  };
}
