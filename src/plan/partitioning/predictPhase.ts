import { attentionElements, bitsOf, feedForwardElements, type ModelShape } from '../ModelShape.js';
import type { ChipProfile, Interconnect } from './ChipProfile.js';
import { bytesSent, collectiveSeconds } from './Collective.js';
import { layerCollectives, paddedShape } from './layerCollectives.js';
import { chipsAlong } from './Mesh.js';
import { ACTIVATION_BYTES, LAYOUTS, WEIGHT_FORMATS, type Partitioning } from './Partitioning.js';

export const PHASES = ['prefill', 'decode'] as const;
export type PhaseName = (typeof PHASES)[number];

/** A phase of a batch of rows, all alike. */
export interface Phase {
  readonly name: PhaseName;
  readonly batchSize: number;
  readonly promptTokens: number;
  readonly newTokens: number;
}

/** The figures of a phase under a partitioning. */
export interface PhasePrediction {
  /** All of it: the prompts, or one step for each new token. */
  readonly seconds: number;
  /** Seconds of one pass over the model. */
  readonly stepSeconds: number;
  /** Chip-seconds for each token of the phase: chips x seconds / (batch x tokens). */
  readonly chipSecondsPerToken: number;
  /** Model FLOPs utilisation: 2 operations a parameter and token, over what the chips could do. */
  readonly mfu: number;
  /** Seconds of a pass, by what they are spent on. */
  readonly spent: {
    /** The longer one of computing the products and of reading their weights. */
    readonly products: number;
    /** The same of attention and the KV cache. */
    readonly attention: number;
    readonly communication: number;
  };
  /** Bytes that a chip sends in a pass. */
  readonly bytesSent: number;
  readonly memory: PartitionedMemory;
}

/** Bytes of a chip. */
export interface PartitionedMemory {
  readonly weightBytes: number;
  /** Bytes for rows at their full length. */
  readonly cacheBytes: number;
}

/** Parameters that every token passes; embeddings are looked up, the head multiplies. */
export function parameters(shape: ModelShape): number {
  return shape.layers * layerParameters(shape) + headParameters(shape);
}

function layerParameters(shape: ModelShape): number {
  return attentionElements(shape) + feedForwardElements(shape);
}

function headParameters({ vocabularySize, hiddenSize }: ModelShape): number {
  return vocabularySize * hiddenSize;
}

/** Rows and heads of which one chip has the cache, and computes attention. */
function attentionShare(
  { heads, kvHeads }: ModelShape,
  { mesh, layout, attention }: Partitioning,
  batchSize: number,
): { readonly rows: number; readonly heads: number; readonly kvHeads: number } {
  const chips = chipsAlong(mesh);
  if (attention === 'batch') return { rows: Math.ceil(batchSize / chips), heads, kvHeads };
  const batched = chipsAlong(mesh, LAYOUTS[layout].gathered);
  const split = chips / batched;
  // More chips than heads have copies of them.
  return {
    rows: Math.ceil(batchSize / batched),
    heads: Math.ceil(heads / split),
    kvHeads: Math.ceil(kvHeads / split),
  };
}

/**
 * Bytes of KV cache that a chip keeps for so many tokens of each row (Pope et al., section 3.3, table 1). Pure.
 */
export function cacheBytes(
  given: ModelShape,
  partitioning: Partitioning,
  batchSize: number,
  rowTokens: number,
): number {
  const shape = paddedShape(given, chipsAlong(partitioning.mesh));
  const { rows, kvHeads } = attentionShare(shape, partitioning, batchSize);
  return 2 * rows * rowTokens * kvHeads * shape.headDim * shape.layers * ACTIVATION_BYTES;
}

/** Bytes of weights of a chip: its part of all layers, of embeddings and head. Pure. */
export function weightBytes(given: ModelShape, { mesh, weights }: Partitioning): number {
  const chips = chipsAlong(mesh);
  const shape = paddedShape(given, chips);
  const globals = (shape.globalWeightBytes * 8) / bitsOf(shape.headWeightType ?? shape.weightType);
  return ((shape.layers * layerParameters(shape) + globals) * WEIGHT_FORMATS[weights]) / chips;
}

/**
 * Latency, cost and memory of one phase, by Pope et al.: products at peak or as fast as weights come from memory,
 * attention likewise, collectives by appendix A, none of which hides another. Pure.
 */
export function predictPhase(
  chip: ChipProfile,
  interconnect: Interconnect,
  given: ModelShape,
  partitioning: Partitioning,
  { name, batchSize, promptTokens, newTokens }: Phase,
): PhasePrediction {
  const { mesh, layout, weights } = partitioning;
  const { efficiency } = chip;
  const chips = chipsAlong(mesh);
  const shape = paddedShape(given, chips);
  const flops = chip.flopsPerSecond * efficiency.products;
  const memory = chip.memoryBytesPerSecond * efficiency.memory;
  const rowTokens = name === 'prefill' ? promptTokens : 1;
  const passes = name === 'prefill' ? 1 : newTokens;
  const tokens = batchSize * rowTokens;

  const gathered = chipsAlong(mesh, LAYOUTS[layout].gathered);
  // Rows are whole: chips with one row more than others set the pace.
  const perChip = (Math.ceil(batchSize / gathered) * gathered * rowTokens) / chips;
  const read = (elements: number): number => (elements * WEIGHT_FORMATS[weights]) / memory;
  const layer = layerParameters(shape);
  const products = Math.max((2 * perChip * layer) / flops, read((layer * gathered) / chips));
  const head = headParameters(shape) / chips;
  const headSeconds = Math.max((2 * batchSize * head) / flops, read(head));

  const { rows, heads, kvHeads } = attentionShare(shape, partitioning, batchSize);
  // A token of a prompt looks at those before it, of a decoding row at all that are there: halfway, on average.
  const keys = name === 'prefill' ? promptTokens / 2 : promptTokens + newTokens / 2;
  const cacheKeys = name === 'prefill' ? promptTokens : keys;
  const attention = Math.max(
    (4 * rows * rowTokens * keys * heads * shape.headDim) / flops,
    (2 * rows * cacheKeys * kvHeads * shape.headDim * ACTIVATION_BYTES) / memory,
  );

  const collectives = layerCollectives(shape, partitioning, tokens);
  const communication = collectives.reduce(
    (sum, each) => sum + collectiveSeconds(each, mesh, interconnect, efficiency.network),
    0,
  );
  const spent = {
    products: shape.layers * products + headSeconds,
    attention: shape.layers * attention,
    communication: shape.layers * communication,
  };
  const stepSeconds = Object.values(spent).reduce((sum, each) => sum + each, 0);
  const seconds = stepSeconds * passes;
  return {
    seconds,
    stepSeconds,
    chipSecondsPerToken: (chips * seconds) / (tokens * passes),
    mfu: (2 * parameters(given) * tokens) / (stepSeconds * chips * chip.flopsPerSecond),
    spent,
    bytesSent: shape.layers * collectives.reduce((sum, each) => sum + bytesSent(each, mesh), 0),
    memory: {
      weightBytes: weightBytes(given, partitioning),
      cacheBytes: cacheBytes(given, partitioning, batchSize, promptTokens + (name === 'decode' ? newTokens : 0)),
    },
  };
}
