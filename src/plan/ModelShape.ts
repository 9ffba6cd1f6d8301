import * as z from 'zod';
import { LIMITS, type Bounds } from '../model/architectures/Fields.js';
import { stateSpaceWidths } from '../model/architectures/mixers.js';
import {
  isEncoder,
  streamsOf,
  type DecoderSpec,
  type ExpertsSpec,
  type LatentSpec,
  type LayerSpec,
} from '../model/DecoderSpec.js';
import { embeds } from '../model/partOf.js';
import { WEIGHT_TYPES, type WeightType } from '../model/weightTypes.js';
import type { TensorBinding } from '../model/TensorBinding.js';

/** Shares that sum to 1. */
export type WeightMix = Readonly<Partial<Record<WeightType, number>>>;

/** Layers of one kind: what their tokens are mixed by, and what they keep of a row. */
export interface MixerShape {
  readonly layers: number;
  /** Outputs of the products before the mixing, and inputs of the one after it. */
  readonly projected: number;
  readonly mixed: number;
  /** Keys and values are kept of the last so many positions; 0: of all. Absent: of none, a state is. */
  readonly window?: number | undefined;
  /** Floats of a row's state in one layer. */
  readonly stateFloats?: number | undefined;
}

/** The facts of a model that the cost models need to know: sizes, and the bytes of its weights as they are kept. */
export interface ModelShape {
  readonly name: string;
  readonly layers: number;
  readonly hiddenSize: number;
  /** Streams of hidden states beside each other. Default 1. */
  readonly streams?: number | undefined;
  /** Inner width of the feed-forward block, or of one expert. */
  readonly feedForwardSize: number;
  /** Matrices of a feed-forward block: 2 plain, 3 gated. */
  readonly feedForwardMatrices: 2 | 3;
  /** How a layer's two blocks are summed: what is kept beside them depends on it. */
  readonly residual: DecoderSpec['residual'];
  readonly experts?:
    | {
        readonly count: number;
        readonly perToken: number;
        /** Inner width of a block beside them that all tokens go through. Default: there is none. */
        readonly sharedSize?: number | undefined;
      }
    | undefined;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /**
   * The sizes of latent attention, whose rows of `headDim` elements are keys and values at once. Default: it is none.
   */
  readonly latent?: Omit<LatentSpec, 'epsilon' | 'scale'> | undefined;
  /** Where layers differ, or keep less than all positions. Default: all attend, and keep all. */
  readonly mixers?: readonly MixerShape[] | undefined;
  /** Windows let nothing go: engines that share a model name each other pages of all layers. Default false. */
  readonly keepsAll?: boolean | undefined;
  readonly vocabularySize: number;
  readonly contextTokens: number;
  /** Elements a token of the tables of sines and cosines; 0 without rotary encoding. */
  readonly rotaryElements: number;
  /** Most layer weights are of this type. */
  readonly weightType: WeightType;
  /** Where files mix types, each one's share of the elements of all layers' matrices. Default: all are `weightType`. */
  readonly weightMix?: WeightMix | undefined;
  /** Weight type of the head, which is often kept more precisely. Default: as the layers. */
  readonly headWeightType?: WeightType | undefined;
  /** One layer, all its matrices, norms and biases. */
  readonly layerWeightBytes: number;
  /**
   * The weight bytes of the largest layer, where files mix types by layer. Default: `layerWeightBytes`, which is their
   * mean then.
   */
  readonly largestLayerWeightBytes?: number | undefined;
  /** Embeddings, head, final norm: always in memory. */
  readonly globalWeightBytes: number;
  /** The part of `globalWeightBytes` after the last layer. Default: the head is the table of embeddings. */
  readonly headWeightBytes?: number | undefined;
}

const within = ({ min, max }: Bounds): z.ZodNumber => z.int().min(min).max(max);
const size = z.number().min(0).max(1e18);
const weightTypes = z.enum(Object.keys(WEIGHT_TYPES) as WeightType[]);
const sumOf = (numbers: Iterable<number>): number => [...numbers].reduce((sum, each) => sum + each, 0);
const weightMixes = z
  .partialRecord(weightTypes, z.number().positive().max(1))
  .refine((shares) => Math.abs(sumOf(Object.values(shares)) - 1) < 1e-6, { error: 'expected shares that sum to 1' });

/** No sizes but those that a model's file may have. */
export const shapeSchema: z.ZodType<ModelShape> = z.strictObject({
  name: z.string(),
  layers: within(LIMITS.layers),
  hiddenSize: within(LIMITS.hidden),
  streams: z.int().min(1).max(4).optional(),
  feedForwardSize: within(LIMITS.feedForward),
  feedForwardMatrices: z.literal([2, 3]),
  residual: z.enum(['pre', 'post', 'sandwich', 'branch', 'parallel']),
  experts: z
    .strictObject({
      count: within(LIMITS.experts),
      perToken: within(LIMITS.experts),
      sharedSize: within(LIMITS.feedForward).optional(),
    })
    .optional(),
  heads: within(LIMITS.heads),
  kvHeads: within(LIMITS.heads),
  // A latent row is as long as the rank and what is rotated.
  headDim: within(LIMITS.latent),
  latent: z
    .strictObject({
      rank: within(LIMITS.latent),
      queryRank: z.int().min(0).max(LIMITS.hidden.max),
      rotated: within(LIMITS.headDim),
      plain: within(LIMITS.headDim),
      value: within(LIMITS.headDim),
    })
    .optional(),
  mixers: z
    .array(
      z.strictObject({
        layers: within(LIMITS.layers),
        projected: z
          .int()
          .min(1)
          .max(2 ** 26),
        mixed: z
          .int()
          .min(1)
          .max(2 ** 24),
        window: z.int().min(0).max(LIMITS.window.max).optional(),
        stateFloats: z
          .int()
          .min(0)
          .max(2 ** 40)
          .optional(),
      }),
    )
    .min(1)
    .optional(),
  keepsAll: z.boolean().optional(),
  vocabularySize: within(LIMITS.vocabulary),
  contextTokens: within(LIMITS.context),
  rotaryElements: z.int().min(0),
  weightType: weightTypes,
  weightMix: weightMixes.optional(),
  headWeightType: weightTypes.optional(),
  layerWeightBytes: size.positive(),
  largestLayerWeightBytes: size.positive().optional(),
  globalWeightBytes: size,
  headWeightBytes: size.optional(),
});

/** Multiplied weights of one layer that every token sees, without the feed-forward block. */
export function attentionElements(shape: ModelShape): number {
  const { hiddenSize, heads, kvHeads, headDim } = shape;
  if (shape.mixers === undefined) return hiddenSize * headDim * (2 * heads + 2 * kvHeads);
  return hiddenSize * meanOfLayers(shape, ({ projected, mixed }) => projected + mixed);
}

/** The kinds of a model's layers. */
export function mixersOf({ mixers, layers, heads, kvHeads, headDim }: ModelShape): readonly MixerShape[] {
  return mixers ?? [{ layers, projected: headDim * (heads + 2 * kvHeads), mixed: headDim * heads, window: 0 }];
}

/** The mean over a model's layers of something that differs by kind. */
export function meanOfLayers(shape: ModelShape, of: (mixer: MixerShape) => number): number {
  const kinds = mixersOf(shape);
  return sumOf(kinds.map((mixer) => mixer.layers * of(mixer))) / sumOf(kinds.map(({ layers }) => layers));
}

/** The share of the layers that keep keys and values. */
export function attendingShare(shape: ModelShape): number {
  return shape.mixers === undefined ? 1 : meanOfLayers(shape, ({ window }) => (window === undefined ? 0 : 1));
}

/** Floats that a row's states take, of all layers together. */
export function stateFloatsOf({ mixers = [] }: ModelShape): number {
  return sumOf(mixers.map(({ layers, stateFloats = 0 }) => layers * stateFloats));
}

/** Weights of one feed-forward block, or of one expert. */
export function feedForwardElements({ hiddenSize, feedForwardSize, feedForwardMatrices }: ModelShape): number {
  return feedForwardMatrices * hiddenSize * feedForwardSize;
}

/** Weights of the block beside a mixture's experts. */
export function sharedElements({ hiddenSize, feedForwardMatrices, experts }: ModelShape): number {
  return feedForwardMatrices * hiddenSize * (experts?.sharedSize ?? 0);
}

/** All matrix weights of a layer, every expert among them. */
export function layerElements(shape: ModelShape): number {
  return attentionElements(shape) + feedForwardElements(shape) * (shape.experts?.count ?? 1) + sharedElements(shape);
}

/** Values of keys and values that one token adds in one layer; a latent row is both. */
export function cacheValues({ kvHeads, headDim, latent }: ModelShape): number {
  return (latent === undefined ? 2 : 1) * kvHeads * headDim;
}

/** Elements of a head's query and key, and of what its scores weigh. */
export function attendedElements({ headDim, latent }: ModelShape): number {
  return headDim + (latent?.rank ?? headDim);
}

/** Bits of a weight as it is kept, scales included. */
export function bitsOf(type: WeightType): number {
  const { kept, elements } = WEIGHT_TYPES[type];
  return (kept * 8) / elements;
}

/**
 * The shape of a model of which only the configuration is known. @param weightType default F16, as the papers have it
 */
export function shapeOfDecoder(
  decoder: DecoderSpec,
  name: string,
  { tied, weightType = 'F16' }: { readonly tied: boolean; readonly weightType?: WeightType },
): ModelShape {
  const { hiddenSize, vocabularySize, embedding, position, contextTokens } = decoder;
  const bare = sizes(decoder, name, weightType);
  const positions = position.kind === 'learned' ? (contextTokens + position.offset) * hiddenSize : 0;
  const table = vocabularySize * embedding.size;
  return withWeightBytes(bare, table + positions, tied ? 0 : table);
}

/**
 * A shape with the bytes of its weights, all of its type. @param embeddings elements of these; @param head of the head,
 * 0 where it is the table of embeddings
 */
export function withWeightBytes(shape: ModelShape, embeddings: number, head: number): ModelShape {
  const bytes = bitsOf(shape.weightType) / 8;
  return {
    ...shape,
    layerWeightBytes: layerElements(shape) * bytes,
    globalWeightBytes: (embeddings + head) * bytes,
    ...(head > 0 && { headWeightBytes: head * bytes }),
  };
}

/** The shape of a model whose files have been read. */
export function shapeOfModel(
  { decoder, bindings }: { readonly decoder: DecoderSpec; readonly bindings: readonly TensorBinding[] },
  name: string,
): ModelShape {
  const bytesByType = new Map<WeightType, number>();
  const elementsByType = new Map<WeightType, number>();
  const layerBytes = Array.from({ length: decoder.layers }, () => 0);
  let elsewhere = 0;
  let behind = 0;
  for (const binding of bindings) {
    const { layer, kind, rows, columns, role } = binding;
    // Of one scale a row: plans know such products as those of Q8_0.
    const int8 = binding.compressed === 'Q8_R';
    const type = int8 ? 'Q8_0' : binding.type;
    // Vectors are kept as 32-bit floats, matrices in their file's precision (panels of 16 outputs).
    const bytes =
      kind === 'vector'
        ? rows * 4
        : (Math.ceil(rows / 16) * 16 * (int8 ? columns * 8 + 16 : columns * bitsOf(type))) / 8;
    if (layer < 0) {
      elsewhere += bytes;
      if (!embeds(binding)) behind += bytes;
    } else {
      layerBytes[layer] = (layerBytes[layer] ?? 0) + bytes;
      bytesByType.set(type, (bytesByType.get(type) ?? 0) + bytes);
      // Routers are floats whatever the rest is, and next to nothing.
      if (kind === 'matrix' && role !== 'router.weight' && role !== 'shared_gate.weight')
        elementsByType.set(type, (elementsByType.get(type) ?? 0) + rows * columns);
    }
  }
  const [weightType] = [...bytesByType].sort((a, b) => b[1] - a[1])[0] ?? ['F16' as const];
  // A tied head is the table of embeddings.
  const ownHead = bindings.find(({ role }) => role === 'head.weight');
  const head = ownHead ?? bindings.find(({ role }) => role === 'token_embedding');
  return {
    ...sizes(decoder, name, weightType),
    ...(elementsByType.size > 1 && { weightMix: sharesOf(elementsByType) }),
    headWeightType: head?.compressed === 'Q8_R' ? 'Q8_0' : head?.type,
    layerWeightBytes: sumOf(layerBytes) / decoder.layers,
    largestLayerWeightBytes: Math.max(...layerBytes),
    globalWeightBytes: elsewhere,
    ...(ownHead && { headWeightBytes: behind }),
  };
}

function expertsShape({ count, perToken, shared }: ExpertsSpec): NonNullable<ModelShape['experts']> {
  return { count, perToken, ...(shared && { sharedSize: shared.size }) };
}

function sharesOf(elements: ReadonlyMap<WeightType, number>): WeightMix {
  const all = sumOf(elements.values());
  return Object.fromEntries([...elements].map(([type, count]) => [type, count / all]));
}

/** Layers by kind, those that are alike together; nothing where all attend to all positions and no gate is there. */
function mixersOfDecoder(decoder: DecoderSpec): Pick<ModelShape, 'mixers'> {
  const kinds = new Map<string, MixerShape>();
  for (const layer of decoder.layerSpecs) {
    const kind = mixerOfLayer(decoder, layer);
    const key = JSON.stringify(kind);
    kinds.set(key, { ...kind, layers: (kinds.get(key)?.layers ?? 0) + 1 });
  }
  const mixers = [...kinds.values()];
  const { gate, latent } = decoder.attention;
  const plain =
    mixers.every(({ window, stateFloats }) => window === 0 && stateFloats === undefined) &&
    gate !== true &&
    latent === undefined;
  return plain || isEncoder(decoder) ? {} : { mixers };
}

function mixerOfLayer(decoder: DecoderSpec, layer: LayerSpec): MixerShape {
  const { hiddenSize, recurrent, attention } = decoder;
  const { mixer = 'attention', window, headDim = decoder.headDim, kvHeads = decoder.kvHeads } = layer;
  const { heads = decoder.heads } = layer;
  const kept = (convolved: number): number => ((recurrent?.taps ?? 1) - 1) * convolved;
  switch (mixer) {
    case 'attention': {
      const queries = heads * headDim;
      const gates = attention.gate === true ? (attention.gatesHeads === true ? heads : queries) : 0;
      const { valueDim = headDim } = attention;
      const { sinks = 0, window: last = 0 } = attention.eviction ?? {};
      const seen = sinks + last;
      const values = layer.valuesAreKeys === true ? 0 : valueDim;
      const ownKeys = layer.keysOf === undefined ? kvHeads * (headDim + values) : 0;
      return {
        layers: 0,
        ...(attention.latent === undefined
          ? { projected: queries + ownKeys + gates, mixed: heads * valueDim }
          : latentWidths(decoder, attention.latent, gates)),
        window: window === 0 ? seen : window,
        ...(layer.stateBeside === true && besideWidths(decoder, queries + ownKeys, queries)),
      };
    }
    case 'short-convolution':
      return { layers: 0, projected: 3 * hiddenSize, mixed: hiddenSize, stateFloats: kept(hiddenSize) };
    case 'delta-rule': {
      const { keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0, byKey } = recurrent?.delta ?? {};
      const values = valueHeads * valueDim;
      const convolved = 2 * keyHeads * keyDim + values;
      const stateFloats = kept(convolved) + values * keyDim;
      const decays = byKey ? valueHeads * keyDim : valueHeads;
      // Where gates and rates are two products each, as many multiplied weights as one of the hidden states would have.
      const gates = byKey?.rank
        ? Math.ceil((byKey.rank * (2 * hiddenSize + values + decays)) / hiddenSize)
        : values + decays;
      return { layers: 0, projected: convolved + gates + valueHeads, mixed: values, stateFloats };
    }
    case 'state-space': {
      const { values, convolved, projected } = stateSpaceWidths(decoder);
      const stateFloats = kept(convolved) + values * (recurrent?.stateSpace?.stateDim ?? 0);
      return { layers: 0, projected, mixed: values, stateFloats };
    }
    case 'selective-scan': {
      const { channels = 0, stateDim = 0, rank = 0 } = recurrent?.scan ?? {};
      const stateFloats = kept(channels) + channels * stateDim;
      // Time steps, and what they are made of, stand beside what is projected; their products are small.
      return { layers: 0, projected: 3 * channels + rank + 2 * stateDim, mixed: channels, stateFloats };
    }
    case 'lightning-attention': {
      const { heads: own = 0, headDim: width = 0 } = recurrent?.lightning ?? {};
      return { layers: 0, projected: 4 * own * width, mixed: own * width, stateFloats: own * width * width };
    }
    case 'rg-lru': {
      const { blocks = 0, blockDim = 0 } = recurrent?.lru ?? {};
      const width = blocks * blockDim;
      // Gates stand beside what is projected; their products are small.
      return { layers: 0, projected: 4 * width, mixed: width, stateFloats: kept(width) + width };
    }
  }
}

/** Attention with a state space beside it. */
function besideWidths(
  decoder: DecoderSpec,
  attending: number,
  queries: number,
): Pick<MixerShape, 'projected' | 'mixed' | 'stateFloats'> {
  const { values, convolved, projected } = stateSpaceWidths(decoder);
  const { taps = 1, stateSpace } = decoder.recurrent ?? {};
  return {
    projected: attending + projected,
    mixed: queries + values,
    stateFloats: (taps - 1) * convolved + values * (stateSpace?.stateDim ?? 0),
  };
}

/** Products of latent attention by the multiplied weights that they have, as if all were of the hidden states. */
function latentWidths(
  { heads, hiddenSize }: DecoderSpec,
  { rank, queryRank, rotated, plain, value }: LatentSpec,
  gates: number,
): Pick<MixerShape, 'projected' | 'mixed'> {
  const queries = heads * (plain + rotated);
  const elements =
    (queryRank === 0 ? hiddenSize * queries : queryRank * (hiddenSize + queries)) +
    hiddenSize * (rank + rotated) +
    heads * rank * (plain + value);
  return { projected: Math.ceil(elements / hiddenSize) + gates, mixed: heads * value };
}

function sizesOfLatent({ rank, queryRank, rotated, plain, value }: LatentSpec): NonNullable<ModelShape['latent']> {
  return { rank, queryRank, rotated, plain, value };
}

function sizes(decoder: DecoderSpec, name: string, weightType: WeightType): ModelShape {
  const {
    layers,
    hiddenSize,
    feedForwardSize,
    heads,
    kvHeads,
    headDim,
    vocabularySize,
    contextTokens,
    feedForward,
    position,
  } = decoder;
  return {
    name,
    layers,
    hiddenSize,
    feedForwardSize,
    heads,
    kvHeads,
    headDim,
    vocabularySize,
    contextTokens,
    weightType,
    feedForwardMatrices: feedForward.kind === 'plain' ? 2 : 3,
    // Where layers differ in it, that which takes the most memory.
    residual: decoder.layerSpecs.some(({ branched }) => branched === true) ? 'sandwich' : decoder.residual,
    experts: feedForward.experts && expertsShape(feedForward.experts),
    ...(decoder.attention.latent && { latent: sizesOfLatent(decoder.attention.latent) }),
    ...(streamsOf(decoder) > 1 && { streams: streamsOf(decoder) }),
    ...mixersOfDecoder(decoder),
    ...((decoder.part ?? decoder.share) && { keepsAll: true }),
    rotaryElements: position.kind === 'rotary' ? position.tables.length * position.dims : 0,
    layerWeightBytes: 0,
    globalWeightBytes: 0,
  };
}
