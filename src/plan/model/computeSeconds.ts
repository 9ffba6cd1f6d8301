import {
  LONG_INPUTS,
  type ComputeProfile,
  type HardwareProfile,
  type MatmulWeights,
  type OtherCompute,
} from '../HardwareProfile.js';
import { PAGE_TOKENS } from '../reserves.js';
import {
  attendingShare,
  attentionElements,
  attendedElements,
  cacheValues,
  feedForwardElements,
  meanOfLayers,
  sharedElements,
  stateFloatsOf,
  type ModelShape,
} from '../ModelShape.js';
import { layerKinds, matmulKind, STAND_INS, type KindShare } from './matmulKinds.js';
import { neighbours } from '../neighbours.js';
import type { Compression } from '../Policy.js';

/** How a processor computes for a policy. */
export interface ComputeSetting {
  readonly on: ComputeProfile;
  readonly shape: ModelShape;
  /** Default: as many as the profile was measured with. */
  readonly threads?: number | undefined;
  readonly compressWeights: Compression;
  readonly compressCache: Compression;
  /** The share of keys that a token takes the values of. Default: all. */
  readonly sparseAttention?: number | undefined;
  /** It is the CPU that computes, with our own kernels and threads. */
  readonly isCpu: boolean;
}

/**
 * How often a part of a layer's compute hands work to all threads and waits for the last of them; each time costs about
 * what a task does. A GPU starts its kernels without waiting.
 */
const HANDOVERS = { embed: 1, project: 5, attend: 2, finish: 10, head: 4 } as const;

/**
 * The same for each expert that is touched, in what a task costs: on a processor two products are handed to all
 * threads; a GPU starts eight kernels, of which a dense block's task has six.
 */
const EXPERT_TASKS = { cpu: 2, gpu: 8 / 6 } as const;

/** Gives a part's cost beside its work. */
export function partSeconds({ on, isCpu }: ComputeSetting, part: keyof typeof HANDOVERS): number {
  return on.taskSeconds * (isCpu ? HANDOVERS[part] : 1);
}

/**
 * Operations a second of a product with `tokens` rows and weights of so many inputs: the measured points joined by
 * straight lines between the logarithms. Below the first point reading the weights takes all the time, which does not
 * depend on the rows; beyond the last one the speed stays.
 */
export function matmulFlopsPerSecond(
  { matmul }: Pick<ComputeProfile, 'matmul'>,
  kind: MatmulWeights,
  tokens: number,
  inputs = LONG_INPUTS,
): number {
  const { longs, shorts, least } = pointsOf(matmul, kind);
  const long = between(longs, tokens);
  if (inputs >= LONG_INPUTS || least === Infinity) return long ?? 1;
  const short = between(shorts, tokens) ?? 1;
  return short * ((long ?? short) / short) ** Math.max(0, Math.log(inputs / least) / Math.log(LONG_INPUTS / least));
}

/** Operations a second of all products of a layer, with `tokens` rows. */
export function layerFlopsPerSecond(
  on: Pick<ComputeProfile, 'matmul'>,
  shape: ModelShape,
  compressed: Compression,
  tokens: number,
): number {
  return (
    1 /
    layerKinds(shape, compressed).reduce(
      (sum, { kind, share }) => sum + share / matmulFlopsPerSecond(on, kind, tokens),
      0,
    )
  );
}

/** The measured points of one kind of weights, or of what stands in for it. */
interface MatmulPoints {
  /** Points of weights with LONG_INPUTS inputs and more. */
  readonly longs: ComputeProfile['matmul'];
  /** Points of those with the fewest. */
  readonly shorts: ComputeProfile['matmul'];
  /** How many these are; infinite where there are none. */
  readonly least: number;
}

/** Costing a plan asks for the same points many thousand times. */
const known = new WeakMap<ComputeProfile['matmul'], Map<MatmulWeights, MatmulPoints>>();

function pointsOf(matmul: ComputeProfile['matmul'], kind: MatmulWeights): MatmulPoints {
  let ofKinds = known.get(matmul);
  if (!ofKinds) known.set(matmul, (ofKinds = new Map<MatmulWeights, MatmulPoints>()));
  let found = ofKinds.get(kind);
  if (!found) {
    const measured = STAND_INS[kind].find((each) => matmul.some(({ weights }) => weights === each));
    const points = matmul.filter(({ weights }) => weights === measured);
    const least = Math.min(...points.map((point) => point.inputs ?? Infinity));
    found = {
      longs: points.filter((point) => point.inputs === undefined),
      shorts: points.filter((point) => point.inputs === least),
      least,
    };
    ofKinds.set(kind, found);
  }
  return found;
}

function between(measured: ComputeProfile['matmul'], tokens: number): number | undefined {
  const { low, high, part } = neighbours(measured, (point) => point.tokens, tokens);
  if (high === undefined) return low?.flopsPerSecond;
  if (low === undefined) return (high.flopsPerSecond * tokens) / high.tokens;
  return low.flopsPerSecond * (high.flopsPerSecond / low.flopsPerSecond) ** part;
}

/**
 * A rate on `threads` threads from the one on all that were measured: between that and the one on a single thread the
 * gain of a doubling stays; in proportion where a single thread was not measured. More threads than were measured are
 * no faster.
 */
export function rateOnThreads(all: number, one: number | undefined, threads: number, measured: number): number {
  if (threads >= measured) return all;
  if (one === undefined) return (all * threads) / measured;
  // Noise may have made one thread look faster than all.
  const single = Math.min(one, all);
  return single * (all / single) ** (Math.log(threads) / Math.log(measured));
}

/**
 * A processor's rate on a setting's threads, from what was measured on all, on one, and on one a core: from there on
 * threads share cores, which may make them slower.
 */
function rateOf(
  { on, threads = on.threads }: ComputeSetting,
  measured: (figures: ComputeProfile | OtherCompute) => number | undefined,
): number | undefined {
  const { oneThread, oneThreadACore: cores } = on;
  const all = measured(on);
  const one = oneThread && measured(oneThread);
  const onCores = cores && measured(cores);
  if (all === undefined || cores === undefined || onCores === undefined)
    return all === undefined ? undefined : rateOnThreads(all, one, threads, on.threads);
  if (threads <= cores.threads) return rateOnThreads(onCores, one, threads, cores.threads);
  const part = Math.log(Math.min(threads, on.threads) / cores.threads) / Math.log(on.threads / cores.threads);
  return onCores * (all / onCores) ** part;
}

/** Seconds of products of `tokens` rows with weights of `inputs` by `outputs`, mixed of several kinds. */
function matmulSeconds(
  setting: ComputeSetting,
  kinds: readonly KindShare[],
  inputs: number,
  outputs: number,
  tokens: number,
): number {
  if (tokens <= 0) return 0;
  let seconds = 0;
  for (const { kind, share } of kinds) {
    const rate = rateOf(setting, (figures) => matmulFlopsPerSecond(figures, kind, tokens, inputs)) ?? 1;
    seconds += (share * 2 * inputs * outputs * tokens) / rate;
  }
  return seconds;
}

/**
 * On a CPU whose row operations were not measured, queries, keys and values are gone over so often: rounded, scaled,
 * rotated, stored as pages are laid out.
 */
const PROJECTED_TIMES = 7;

/** Outputs of the products before a layer's mixing, on average. */
const projectedOf = (shape: ModelShape): number => meanOfLayers(shape, ({ projected }) => projected);

/**
 * Counts the keys that layers look at on average, of those that so many tokens look at: none where layers remember a
 * state, no more than the window's where they have one.
 */
function keysOfLayers(shape: ModelShape, keys: number, tokens: number): number {
  if (shape.mixers === undefined) return keys;
  return meanOfLayers(shape, ({ window }) => {
    if (window === undefined) return 0;
    return window === 0 ? keys : Math.min(keys, tokens * window);
  });
}

/** How often a token goes over a layer's state: to forget, to write, to read. */
const STATE_TIMES = 4;

/** Gives the seconds of a layer's states on average, each token going over them in turn. */
function stateSeconds(setting: ComputeSetting, tokens: number): number {
  const floats = stateFloatsOf(setting.shape) / setting.shape.layers;
  return floats === 0 ? 0 : rowSeconds(setting, tokens, { operations: STATE_TIMES * floats, passes: 2 * floats });
}

/** Norm, query, key and value products, rotation, and storing keys and values: compressed on the way where they are. */
export function projectSeconds(setting: ComputeSetting, tokens: number): number {
  const { on, shape } = setting;
  const { hiddenSize, heads, kvHeads, headDim } = shape;
  const kinds = layerKinds(shape, setting.compressWeights);
  const projected = shape.mixers === undefined ? (heads + 2 * kvHeads) * headDim : projectedOf(shape);
  const quantise =
    setting.compressCache === 'none'
      ? 0
      : (tokens * cacheValues(shape) * attendingShare(shape)) / on.quantiseValuesPerSecond;
  return (
    matmulSeconds(setting, kinds, hiddenSize, projected, tokens) +
    rowSeconds(setting, tokens, {
      operations: 2 * hiddenSize + 2 * projected,
      passes: 4 * hiddenSize + (setting.isCpu ? PROJECTED_TIMES * projected : 2 * heads * headDim),
    }) +
    quantise
  );
}

/**
 * Experts that at least one of so many tokens goes to, expected where routers favour none: count (1 - (1 -
 * perToken/count)^tokens).
 */
export function expertsTouched({ count, perToken }: NonNullable<ModelShape['experts']>, tokens: number): number {
  return count * (1 - (1 - perToken / count) ** tokens);
}

/**
 * Gives the seconds that making floats of a layer's compressed weights takes a GPU, once a sweep, of which no products
 * with compressed weights were measured: of those weights that so many tokens are multiplied with, by part of the
 * layer.
 */
export function dequantiseSeconds(
  { on, shape, compressWeights }: ComputeSetting,
  tokens: number,
): { readonly project: number; readonly finish: number } {
  const kind = matmulKind(shape, compressWeights);
  if (kind === matmulKind(shape, 'none') || on.matmul.some(({ weights }) => weights === kind))
    return { project: 0, finish: 0 };
  const { hiddenSize, experts } = shape;
  const projected = hiddenSize * projectedOf(shape);
  const blocks = experts ? expertsTouched(experts, tokens) : 1;
  const others = attentionElements(shape) - projected + blocks * feedForwardElements(shape) + sharedElements(shape);
  return { project: projected / on.dequantiseValuesPerSecond, finish: others / on.dequantiseValuesPerSecond };
}

/** Output product, residual sums, feed-forward block. Of a mixture the experts that are touched share the tokens. */
export function finishSeconds(setting: ComputeSetting, tokens: number): number {
  const { shape } = setting;
  const { hiddenSize, heads, headDim, feedForwardSize, feedForwardMatrices, experts } = shape;
  const kinds = layerKinds(shape, setting.compressWeights);
  const mixed = shape.mixers === undefined ? heads * headDim : meanOfLayers(shape, (mixer) => mixer.mixed);
  const out = matmulSeconds(setting, kinds, mixed, hiddenSize, tokens);
  const used = experts ? expertsTouched(experts, tokens) : 1;
  const each = experts ? (tokens * experts.perToken) / used : tokens;
  const up = matmulSeconds(setting, kinds, hiddenSize, (feedForwardMatrices - 1) * feedForwardSize, each);
  const inner = used * (up + matmulSeconds(setting, kinds, feedForwardSize, hiddenSize, each));
  const { perToken = 1, sharedSize = 0 } = experts ?? {};
  const beside =
    sharedSize === 0
      ? 0
      : matmulSeconds(setting, kinds, hiddenSize, (feedForwardMatrices - 1) * sharedSize, tokens) +
        matmulSeconds(setting, kinds, sharedSize, hiddenSize, tokens);
  const forward = feedForwardSize * perToken + sharedSize;
  // Rows are gathered for each expert, and added up after it.
  const gathered = experts ? 2 * hiddenSize * perToken : 0;
  const started = experts ? used * EXPERT_TASKS[setting.isCpu ? 'cpu' : 'gpu'] * setting.on.taskSeconds : 0;
  return (
    out +
    inner +
    beside +
    started +
    rowSeconds(setting, tokens, {
      operations: 5 * hiddenSize + 2 * forward + gathered,
      passes: 8 * hiddenSize + 4 * forward + 2 * gathered,
    })
  );
}

const CACHE_KIND = { none: 'f16', '8bit': 'q8', '4bit': 'q4' } as const;

/**
 * The measured speed for a kind of cache, joined between the numbers of query heads a head of keys and values;
 * undefined where it was not measured.
 */
function decodeBytesPerSecond(
  { decode = [] }: ComputeProfile['attention'],
  cache: Compression,
  groupHeads: number,
): number | undefined {
  const { low, high, part } = neighbours(
    decode.filter((point) => point.cache === CACHE_KIND[cache]),
    (point) => point.groupHeads,
    groupHeads,
  );
  if (high === undefined || low === undefined) return (high ?? low)?.bytesPerSecond;
  return low.bytesPerSecond * (high.bytesPerSecond / low.bytesPerSecond) ** part;
}

/**
 * Attention of `rows` that decode: bounded by reading their keys and values, which become floats again where they are
 * compressed, and by what each row takes beside.
 */
export function decodeAttentionSeconds(setting: ComputeSetting, keys: number, rows: number): number {
  const { shape } = setting;
  const rowHeads = rateOf(setting, ({ attention }) => attention.rowHeadsPerSecond);
  const beside = rowHeads === undefined ? 0 : (rows * shape.heads * attendingShare(shape)) / rowHeads;
  const keep = keptOf(setting);
  const dense = keysSeconds(setting, keysOfLayers(shape, keys, rows));
  const attention = keep < 1 ? choosingSeconds(setting, keys, rows) + (keep * dense) / 2 : dense;
  return attention + beside + stateSeconds(setting, rows);
}

/** The share of keys that a token takes the values of; all where that saves nothing, or nobody has measured it. */
function keptOf({ sparseAttention = 1, shape, isCpu }: ComputeSetting): number {
  return isCpu && shape.latent === undefined ? sparseAttention : 1;
}

/**
 * So many operations a score take the largest ones out of them, of which there is one a key and query head: measured
 * with rows of 4,000 tokens of SmolLM2, 0.4 ns (EPYC of Zen 5, 2 processors).
 */
const CHOOSING_OPERATIONS = 8;

/**
 * Seconds in which rows that decode score keys, and choose some: nothing where attention is dense. It is done once, and
 * once before where values of chosen keys are read from disk.
 */
export function choosingSeconds(setting: ComputeSetting, keys: number, rows: number): number {
  if (keptOf(setting) >= 1) return 0;
  const { shape } = setting;
  const seen = keysOfLayers(shape, keys, rows);
  const operations = CHOOSING_OPERATIONS * shape.heads;
  return keysSeconds(setting, seen) / 2 + rowSeconds(setting, seen, { operations, passes: operations });
}

/**
 * So often a layer's attention on the CPU waits for the link: for queries, keys and values on their way down, and for
 * what it has found on its way up.
 */
const LINK_WAITS = 4;
/**
 * And what that attention costs beside its work and those waits, in what a task costs: threads that sleep while the
 * link is waited for are woken, and the GPU has its other work under way. Measured in traces on an H200 with 16
 * processors: 1.5 ms for each batch and layer of OPT-6.7B's shape, 1.7 ms of OPT-30B's, where a task cost 0.023 ms;
 * with 32 bits on the link, which one thread took apart. What is left of it with 16 bits has not been measured.
 */
const HOST_ATTENTION_TASKS = 65;

/** Attention on the CPU, beside a GPU, of rows that decode. */
export function hostAttentionSeconds(
  cpu: ComputeSetting,
  { copySeconds = 0 }: HardwareProfile['links'],
  keys: number,
  rows: number,
): number {
  return keys > 0
    ? decodeAttentionSeconds(cpu, keys, rows) + HOST_ATTENTION_TASKS * cpu.on.taskSeconds + LINK_WAITS * copySeconds
    : 0;
}

function keysSeconds(setting: ComputeSetting, keys: number): number {
  const { on, shape, compressCache } = setting;
  const values = keys * cacheValues(shape);
  const groupHeads = shape.heads / shape.kvHeads;
  const measured = rateOf(setting, ({ attention }) => decodeBytesPerSecond(attention, compressCache, groupHeads));
  if (measured !== undefined) return (values * 2) / measured;
  const read = (values * 2) / (rateOf(setting, ({ attention }) => attention.decodeBytesPerSecond) ?? 1);
  return read + (compressCache === 'none' ? 0 : values / on.dequantiseValuesPerSecond);
}

/**
 * @param keys that the tokens of prompts look at, summed; @param tokens of prompts: each looks at its last page in full
 */
export function prefillAttentionSeconds(setting: ComputeSetting, keys: number, tokens: number): number {
  const { shape, isCpu } = setting;
  const whole = isCpu ? (tokens * PAGE_TOKENS * attendingShare(shape)) / 2 : 0;
  return attentionFlopsSeconds(setting, keysOfLayers(shape, keys, tokens) + whole) + stateSeconds(setting, tokens);
}

function attentionFlopsSeconds(setting: ComputeSetting, keys: number): number {
  const { shape } = setting;
  const rate = rateOf(setting, ({ attention }) => attention.prefillFlopsPerSecond) ?? 1;
  return (2 * keys * shape.heads * attendedElements(shape)) / rate;
}

/**
 * @param keys that rows have in common, summed over all tokens that look at them: several rows' queries meet them at
 * once, as a prompt's do, where that is faster
 */
export function sharedAttentionSeconds(setting: ComputeSetting, keys: number): number {
  if (keys === 0) return 0;
  const seen = keys * attendingShare(setting.shape);
  return Math.min(keysSeconds(setting, seen), attentionFlopsSeconds(setting, seen));
}

/** Final norm, the head's product, and looking at the logits. */
export function headSeconds(setting: ComputeSetting, rows: number): number {
  const { on, shape } = setting;
  const { hiddenSize, vocabularySize } = shape;
  return (
    matmulSeconds(
      setting,
      layerKinds({ weightType: shape.headWeightType ?? shape.weightType }, 'none'),
      hiddenSize,
      vocabularySize,
      rows,
    ) +
    (rows * vocabularySize) / on.sampleLogitsPerSecond
  );
}

/**
 * Norms, rounding, rotations, activation functions, sums: by their measured speed, or as floats that are read and
 * written so often. Both a token.
 */
function rowSeconds(
  { on }: ComputeSetting,
  tokens: number,
  { operations, passes }: { readonly operations: number; readonly passes: number },
): number {
  return on.rowOperationsPerSecond === undefined
    ? (tokens * passes * 4) / on.memoryBytesPerSecond
    : (tokens * operations) / on.rowOperationsPerSecond;
}

/** All products of one token in one layer, in operations: for rooflines. */
export function layerFlopsPerToken(shape: ModelShape): number {
  return (
    2 * (attentionElements(shape) + feedForwardElements(shape) * (shape.experts?.perToken ?? 1) + sharedElements(shape))
  );
}
