import type { DecoderSpec, LayerSpec } from '../DecoderSpec.js';
import { stateSpaceWidths } from './mixers.js';

/** [outputs, inputs] of a matrix, [elements] of a vector. Matrices are row-major. */
export type Shape = readonly [number] | readonly [number, number];
export type ShapeOf = (sizes: ReturnType<typeof sizesOf>) => Shape;
export type Roles<Role extends string = string> = Readonly<Record<Role, ShapeOf>>;

/** Some roles, whose names are a type. */
export function roles<Role extends string>(table: Roles<Role>): Roles<Role> {
  return table;
}

/**
 * The shape of a role in a decoder.
 * @param layer of a role of layers
 */
export function shapeIn(decoder: DecoderSpec, layer: LayerSpec | undefined, shapeOf: ShapeOf): Shape {
  return shapeOf(sizesOf(decoder, layer));
}

/** The sizes that shapes are made of, by the names that native/model/WeightRoles.def has for them. */
function sizesOf(decoder: DecoderSpec, layer: LayerSpec | undefined) {
  const { hiddenSize: hidden, vocabularySize: vocabulary, attention, recurrent, position, embedding } = decoder;
  const { experts } = decoder.feedForward;
  const headDim = layer?.headDim ?? decoder.headDim;
  const heads = layer?.heads ?? decoder.heads;
  const kvHeads = layer?.kvHeads ?? decoder.kvHeads;
  const keys = kvHeads * headDim;
  const valueOfHead = attention.valueDim ?? headDim;
  const latent = { rank: 0, queryRank: 0, plain: 0, value: 0, rotated: 0, ...attention.latent };
  const queries = heads * (attention.latent ? latent.plain + latent.rotated : headDim);
  const normsRows = attention.qkNorm === 'row' || attention.qkNorm === 'layer';
  const { keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0, byKey } = recurrent?.delta ?? {};
  const deltaKeys = keyHeads * keyDim;
  const deltaValues = valueHeads * valueDim;
  const deltaDecays = valueHeads * (byKey ? keyDim : 1);
  const space = stateSpaceWidths(decoder);
  const { channels = 0, stateDim = 0 } = recurrent?.scan ?? {};
  const lightning = { heads: 0, headDim: 0, ...recurrent?.lightning };
  const lru = { blocks: 0, blockDim: 0, ...recurrent?.lru };
  const ofMixer = {
    'delta-rule': { rates: valueHeads, decayBiases: deltaDecays },
    'selective-scan': { rates: channels * stateDim, decayBiases: channels },
    others: { rates: space.heads, decayBiases: space.heads },
  };
  const mixer = layer?.mixer;
  return {
    hidden,
    vocabulary,
    heads,
    keys,
    queries,
    latent,
    recurrent,
    deltaKeys,
    deltaValues,
    deltaChannels: 2 * deltaKeys + deltaValues,
    deltaDecays,
    deltaInputs: byKey?.rank ? byKey.rank : hidden,
    stateValues: space.values,
    stateConvolved: space.convolved,
    stateProjected: space.projected,
    lightningValues: lightning.heads * lightning.headDim,
    lruWidth: lru.blocks * lru.blockDim,
    ...ofMixer[mixer === 'delta-rule' || mixer === 'selective-scan' ? mixer : 'others'],
    embedding: embedding.size,
    embedded: embedding.factorised === true ? embedding.size : hidden,
    positions: decoder.contextTokens + (position.kind === 'learned' ? position.offset : 0),
    tokenTypes: embedding.tokenTypes ?? 0,
    buckets: attention.relativeBias?.buckets ?? 0,
    span: attention.disentangled?.span ?? 0,
    decoderHeads: decoder.heads,
    queryInputs: latent.queryRank || hidden,
    values: kvHeads * valueOfHead,
    attended: heads * (attention.latent ? latent.value : valueOfHead),
    queryNorm: normsRows ? queries : headDim,
    keyNorm: normsRows ? keys : headDim,
    gates: attention.gatesHeads === true ? heads : queries,
    streams: decoder.streams ?? { count: 1, bypassRank: 0 },
    inner: innerWidth(decoder, layer),
    expertInner: decoder.feedForwardSize,
    routed: (experts?.count ?? 0) + (experts?.identities ?? 0),
    inputTokens: decoder.layerInputTokens ?? vocabulary,
    layerInputs: decoder.layerInputs ?? 0,
  };
}

/** Inner width of the block that all of a layer's tokens go through. */
function innerWidth({ feedForward, feedForwardSize }: DecoderSpec, layer: LayerSpec | undefined): number {
  const { kind, experts } = feedForward;
  if (kind !== 'experts') return layer?.innerSize ?? feedForwardSize;
  return (layer?.dense === true ? experts?.denseSize : experts?.shared?.size) ?? 0;
}
