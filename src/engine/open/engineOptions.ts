import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal, checkText, checkWhole } from '../../arguments/checks.js';
import { found, foundJson } from '../../arguments/found.js';
import { number, oneOf, size, text, whole } from '../../arguments/memberChecks.js';
import type { NumberRange } from '../../arguments/NumberRange.js';
import { GPU_PRODUCTS } from '../../bindings/Gpu.js';
import type { EngineOptions, EngineShares } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ExpectedRows } from '../../ExpectedRows.js';
import { MemoryBudget } from '../../MemoryBudget.js';
import { WEIGHT_COMPRESSIONS, WEIGHTS_LAYOUTS } from '../../model/compressBindings.js';
import { checkKeyEviction } from '../../model/evictKeys.js';
import { BLOCK_LIMITS } from '../../plan/Policy.js';
import { parseBytesOrNone, type Size } from '../../units.js';
import { BLOCK_SCHEDULES, SCHEDULE_NAMES } from '../schedules/blockSchedules.js';
import { checkLayerRange, checkLayerShare } from './checkModelPart.js';

/** The kind of value an option may have. The command line reads a flag's text by it. */
export type OptionValue =
  | { readonly kind: 'whole'; readonly least: number; readonly most: number }
  /** @param off the value that the command line calls `off`, where there is one */
  | { readonly kind: 'number'; readonly range: NumberRange; readonly off?: number }
  /** @param none whether 0 is one */
  | { readonly kind: 'size'; readonly none?: true }
  /** @param planned what there is besides where somebody plans */
  | { readonly kind: 'choice'; readonly among: readonly string[]; readonly planned?: readonly string[] }
  /** `on` and `off` on the command line. */
  | { readonly kind: 'boolean' }
  | { readonly kind: 'path'; readonly check: Check }
  /** One of some words, or what a file says: a flag names the file. */
  | { readonly kind: 'document' }
  | { readonly kind: 'other'; readonly check: Check };

/** One option of an engine: all that is said of it, once. */
export interface EngineOption {
  readonly group: OptionGroup;
  readonly value: OptionValue;
  readonly required?: true;
  /** The value that holds where neither the caller nor a policy says otherwise. */
  readonly default?: string | number | boolean;
  /** The same in words, where it is no fixed value or a policy may say it: its flag has no default of its own then. */
  readonly defaultWords?: string;
  /** It decides results, and `resultIdentity` has it as it was settled. */
  readonly identity?: true;
  /** The argument of the option's flag, where it has one. */
  readonly flag?: string;
  /** The option's description, in a line of help. */
  readonly about: string;
  /** The same for docs, in Markdown, where there is more to say. */
  readonly docs?: string;
}

export type OptionGroup = 'model' | 'machine' | 'compression' | 'plan' | 'learning' | 'placement' | 'callbacks';

/** Tokens of a typical row, at most. */
export const MOST_ROW_TOKENS = 2 ** 24;
export const MODEL_WORDS = 'a path or a known id';

const callback = { kind: 'other', check: checkFunction } as const;
const shares = { kind: 'other', check: checkShares } as const;

/**
 * Every option of `Engine.open`. What is checked, the flags of the command line, the table in docs/flags.md and
 * the options' part of `resultIdentity` follow from it; `EngineOptions` says what each means to a program.
 */
export const OPTION_TABLE = {
  model: {
    group: 'model',
    value: { kind: 'path', check: text(MODEL_WORDS) },
    required: true,
    flag: '<path|name>',
    about:
      'a GGUF file, a folder with config.json and safetensors, an id that `pull` knows, or hf:owner/repo[@revision][:file-or-quant], ollama:name, lmstudio:publisher/name',
    docs: 'the model: [Models](command-line.md#models)',
  },
  layers: {
    group: 'model',
    value: { kind: 'other', check: checkLayerRange },
    defaultWords: 'all of them',
    about: "`{ first, count }`: these of the model's layers only, where other engines have the others",
  },
  tensorParallel: {
    group: 'model',
    value: { kind: 'other', check: checkLayerShare },
    defaultWords: 'all of them',
    about:
      "`{ index, of }`: this share of the heads and columns of each layer only, where other engines have the others; `attention: 'rows'`: each attends to some rows with all heads, and keeps their cache alone",
  },
  precision: {
    group: 'machine',
    value: { kind: 'choice', among: ['default', 'float32'] },
    default: 'default',
    defaultWords: 'default, or what the policy file says',
    identity: true,
    flag: '<name>',
    about: 'float32: weights dequantised on the fly, all else in float32; for checking, slower',
    docs: '`float32`: no rounding of activations; slower, for checking',
  },
  gpuMemory: {
    group: 'machine',
    value: { kind: 'size', none: true },
    default: 0,
    flag: '<size>',
    about:
      'most memory of the first GPU, reserved at once: with it the GPU computes (0: the processor does; its results were right on an H200; it may be slower than the plan says)',
    docs: 'memory of the first NVIDIA GPU that may be used: with it the GPU computes; see [GPUs](performance.md#gpus)',
  },
  gpuProducts: {
    group: 'machine',
    value: { kind: 'choice', among: GPU_PRODUCTS },
    default: 'own',
    defaultWords: 'own, or what the policy file says',
    flag: '<name>',
    about:
      "what multiplies there; cublaslt: long prompts by NVIDIA's library, an error where it cannot be used; auto: where it can; changes results in their last bits",
    docs: "long prompts multiplied by the engine's kernels or by NVIDIA's cuBLASLt; changes results in their last bits ([GPU](how-it-works/gpu.md#cublaslt))",
  },
  cpuMemory: {
    group: 'machine',
    value: { kind: 'size' },
    defaultWords: 'what is free, less a margin',
    flag: '<size>',
    about: 'most resident memory of the process, in bytes or e.g. 2GiB',
    docs: 'cap on the memory of the process, e.g. `2GiB` or `2G`',
  },
  memoryBudget: {
    group: 'machine',
    value: { kind: 'other', check: checkBudget },
    about: 'a `MemoryBudget` that several engines of the process share',
  },
  disk: {
    group: 'machine',
    value: { kind: 'path', check: checkFolder },
    defaultWords: "in the user's cache folder",
    flag: '<dir>',
    about: 'folder for the repacked file of a model that does not fit into memory: it is kept',
    docs: 'where the repacked file of a model that does not fit goes, and what a policy puts on disk',
  },
  diskMemory: {
    group: 'machine',
    value: { kind: 'size' },
    defaultWords: 'what is free',
    flag: '<size>',
    about: 'most space that such a file may take',
    docs: 'how big all of it may be',
  },
  threads: {
    group: 'machine',
    value: { kind: 'whole', least: 1, most: BLOCK_LIMITS.threads },
    defaultWords: 'the processors that this process may use',
    flag: '<n>',
    about: 'threads that compute',
  },
  device: {
    group: 'machine',
    value: { kind: 'choice', among: ['auto', 'cpu', 'cuda'] },
    default: 'auto',
    flag: '<name>',
    about: 'what computes; cuda needs --gpu-memory; auto: the GPU where that is given',
    docs: '`cuda` needs `--gpu-memory`; `auto`: the GPU where that is given',
  },
  instructionSet: {
    group: 'machine',
    value: { kind: 'choice', among: ['scalar', 'avx2', 'avxvnni', 'avx512', 'amx', 'neon', 'dotprod', 'i8mm'] },
    defaultWords: 'the best of the processor',
    about: '`amx` rounds to bfloat16, which changes results; the others give the same bits',
  },
  compressWeights: {
    group: 'compression',
    value: { kind: 'choice', among: WEIGHT_COMPRESSIONS, planned: ['auto'] },
    default: 'none',
    defaultWords: 'none, or what the policy file says',
    identity: true,
    flag: '<kind>',
    about:
      'matrices in fewer bits than their file has, which changes results: none, 8bit (groups of 32), 4bit (groups of 64; embeddings and head 8bit)',
    docs: 'matrices in fewer bits than their file has; changes results; `auto`: whatever is fastest',
  },
  weightsLayout: {
    group: 'compression',
    value: { kind: 'choice', among: WEIGHTS_LAYOUTS },
    default: 'as-is',
    identity: true,
    flag: '<name>',
    about: 'int8: matrices and activations in 8 bits with one scale a row, which changes results; as-is: as they are',
    docs: '`int8`: matrices, and the activations that they are multiplied with, in 8 bits with one scale a row: faster products for many rows; changes results ([what it costs](performance.md#what-precision-costs)); never chosen by a plan',
  },
  compressCache: {
    group: 'compression',
    value: { kind: 'choice', among: ['none', '4bit', '8bit'], planned: ['auto'] },
    default: 'none',
    defaultWords: 'none, or what the policy file says',
    identity: true,
    flag: '<kind>',
    about: 'round the KV cache to so many bits, which changes results: none, 4bit, 8bit',
    docs: 'keys and values rounded to 4.5 or 8.5 bits an element; changes results; `auto`: whatever is fastest',
  },
  sparseAttention: {
    group: 'compression',
    value: { kind: 'number', range: { least: 0, above: true, most: 1 }, off: 1 },
    default: 1,
    defaultWords: 'off, or what the policy file says',
    identity: true,
    flag: '<f>',
    about:
      'share of the tokens before it whose values a generated token takes, those of highest score, which changes results; off takes all',
    docs: 'generated tokens take the values of this share of the tokens before them; changes results',
  },
  kvEviction: {
    group: 'compression',
    value: { kind: 'path', check: checkKeyEviction },
    default: 'none',
    identity: true,
    flag: '<law>',
    about:
      'sinks:S,window:N lets go of keys and values between the pages of the first S tokens and of the last N, which changes results; none keeps all',
    docs: 'which keys and values a row keeps: all, or with `sinks:S,window:N` the pages of its first S tokens and of the last N (StreamingLLM); lossy, on the processor, without a cache on disk',
  },
  policy: {
    group: 'plan',
    value: { kind: 'document' },
    default: 'auto',
    flag: '<auto|default|file>',
    about:
      'how blocks are sized and placed. auto: planned for this machine and these rows, by lossless means; default: 64 rows, all in memory if it fits; or a file such as `plan --json` and `--stats` write. Other flags override it',
    docs: '`auto`: planned for this machine and these rows, by lossless means ([policy.md](policy.md)); `default`: 64 rows, all in memory if it fits; a JSON file such as `plan --json` and `--stats` write, or its `policy`',
  },
  hardware: {
    group: 'plan',
    value: { kind: 'document' },
    default: 'this',
    flag: '<this|file>',
    about: 'the machine to plan for: this one, measured once; or a file that profile wrote here',
    docs: 'the machine to plan for: this one, measured once, or a file that `profile` wrote here',
  },
  expectedRows: {
    group: 'plan',
    value: { kind: 'other', check: orFunction(checkExpectedRows) },
    defaultWords: 'many, of 384 and 128 tokens',
    about: '`{ promptTokens, newTokens, … }`: the rows that are to come, or a function that finds out',
  },
  maxLatency: {
    group: 'plan',
    value: { kind: 'number', range: { least: 0, above: true, most: BLOCK_LIMITS.latencySeconds } },
    defaultWords: 'any',
    flag: '<n>',
    about:
      'seconds that a block may take from its first prompt to its last token, at most, by the plan: it is the fastest that keeps it',
    docs: 'most seconds that a block of rows may take, as predicted ([policy.md](policy.md#latency))',
  },
  schedule: {
    group: 'plan',
    value: { kind: 'choice', among: SCHEDULE_NAMES },
    default: 'diagonal',
    defaultWords: 'the best, or what the policy file says',
    flag: '<name>',
    about: `order of the work: ${SCHEDULE_NAMES.map((name) => `${name} (${BLOCK_SCHEDULES[name].summary})`).join(', ')}`,
  },
  batchSize: {
    group: 'plan',
    value: { kind: 'whole', least: 1, most: BLOCK_LIMITS.batchSize },
    defaultWords: 'what the policy says',
    flag: '<n>',
    about: 'most rows in a batch',
    docs: 'most rows of one batch, generated at once',
  },
  batches: {
    group: 'plan',
    value: { kind: 'whole', least: 1, most: BLOCK_LIMITS.batches },
    defaultWords: 'what the policy says',
    flag: '<n>',
    about: 'batches that share one pass over the layers',
    docs: 'batches that share one pass over the layers',
  },
  tokensPerSquare: {
    group: 'plan',
    value: { kind: 'whole', least: 1, most: BLOCK_LIMITS.tokensPerSquare },
    defaultWords: 'what the policy says',
    flag: '<n>',
    about: 'most tokens that a batch advances in one pass; longer prompts come in chunks',
  },
  rowTokens: {
    group: 'plan',
    value: { kind: 'other', check: orFunction((name, value) => checkWhole(name, value, 1, MOST_ROW_TOKENS)) },
    default: 512,
    about: 'tokens of a typical row, where `expectedRows` does not say, or a function that finds out',
  },
  learn: {
    group: 'learning',
    value: { kind: 'boolean' },
    default: true,
    flag: '<on|off>',
    about:
      'on: predictions on this machine are corrected by what earlier runs took, and this run corrects later ones; off: neither',
    docs: 'predictions on this machine are corrected by what earlier runs took, and this run corrects later ones ([policy.md](policy.md#corrected-by-runs)); `off`: neither',
  },
  weights: {
    group: 'placement',
    value: shares,
    defaultWords: 'what fits',
    about: "`{ gpu, cpu, disk }`: what share of every layer's weights stays where",
  },
  cache: {
    group: 'placement',
    value: shares,
    defaultWords: 'what fits',
    about: "`{ gpu, cpu, disk }`: what share of each row's KV cache lives where",
  },
  cpuAttention: {
    group: 'placement',
    value: { kind: 'other', check: checkCpuAttention },
    default: true,
    defaultWords: '`true`, or what the plan or policy file says',
    about:
      '`false`, with a GPU: what of the cache is not on it comes to it for attention; `true`: the processor attends to that; a share: to so much of that, the rest comes',
  },
  activations: {
    group: 'placement',
    value: shares,
    defaultWords: 'where it is computed',
    about:
      "`{ gpu, cpu, disk }`: what share of a square's hidden states is where between two layers; on a GPU those of so many batches",
  },
  onDownload: { group: 'callbacks', value: callback, about: 'called while a model that is given by a name is fetched' },
  onProfile: { group: 'callbacks', value: callback, about: 'called while this machine is measured' },
  onPlan: { group: 'callbacks', value: callback, about: 'called when it is settled by which plan the model is opened' },
  onIdentify: { group: 'callbacks', value: callback, about: 'called while files of the model are hashed, once' },
  onWait: { group: 'callbacks', value: callback, about: 'called when another process is repacking this model' },
  onRepack: { group: 'callbacks', value: callback, about: 'called while a model that does not fit is repacked' },
  onLoad: { group: 'callbacks', value: callback, about: 'called while the weights are loaded' },
  signal: {
    group: 'callbacks',
    value: { kind: 'other', check: checkSignal },
    about: 'an AbortSignal: ends the opening',
  },
} as const satisfies Readonly<Record<keyof EngineOptions, EngineOption>>;

/** `OPTION_TABLE` as programs see it: for flags, forms and checks of one's own. */
export const ENGINE_OPTIONS: Readonly<Record<keyof EngineOptions, EngineOption>> = OPTION_TABLE;

type Options = typeof OPTION_TABLE;
/** Options that `resultIdentity` has as they were settled. */
export type IdentityOption = {
  [Name in keyof Options]: Options[Name] extends { readonly identity: true } ? Name : never;
}[keyof Options];
/** Options that have a flag. */
export type FlaggedOption = {
  [Name in keyof Options]: Options[Name] extends { readonly flag: string } ? Name : never;
}[keyof Options];

/** The checks of what each option has to be, whatever the others, the model and the machine are. */
export const OPTION_CHECKS = Object.fromEntries(
  Object.entries(OPTION_TABLE).map(([name, { value }]) => [name, checkOf(value)]),
) as Readonly<Record<keyof EngineOptions, Check>>;

function checkOf(value: OptionValue): Check {
  switch (value.kind) {
    case 'whole':
      return whole(value.least, value.most);
    case 'number':
      return number(value.range);
    case 'size':
      return value.none ? sizeOrNone : size;
    case 'choice':
      return oneOf(...value.among, ...(value.planned ?? []));
    case 'boolean':
      return checkBoolean;
    case 'document':
      // What a document says is judged as it is read.
      return () => undefined;
    case 'path':
    case 'other':
      return value.check;
  }
}

function sizeOrNone(name: string, value: unknown): void {
  parseBytesOrNone(value as Size, name);
}

/** @throws UsageError */
export function checkExpectedRows(name: string, value: unknown): asserts value is ExpectedRows {
  const atLeastZero = number({ least: 0 });
  const checks: Readonly<Record<keyof ExpectedRows, Check>> = {
    promptTokens: atLeastZero,
    newTokens: atLeastZero,
    longRowTokens: atLeastZero,
    longestRowTokens: atLeastZero,
    sharedPrefixTokens: atLeastZero,
    rows: whole(0),
  };
  checkMembers(name, value, checks, `${name}.`);
  const { promptTokens, newTokens } = value as Partial<ExpectedRows>;
  if (promptTokens === undefined || newTokens === undefined)
    throw new UsageError(`${name}: found ${found(value)}, expected promptTokens and newTokens`);
}

function orFunction(check: Check): Check {
  return (name, value) => {
    if (typeof value !== 'function') check(name, value);
  };
}

function checkBudget(name: string, value: unknown): void {
  if (!(value instanceof MemoryBudget))
    throw new UsageError(`${name}: found ${found(value)}, expected a MemoryBudget: new MemoryBudget('4GiB')`);
}

function checkShares(name: string, value: unknown): void {
  const atLeastZero = number({ least: 0 });
  const checks: Readonly<Record<keyof EngineShares, Check>> = { gpu: atLeastZero, cpu: atLeastZero, disk: atLeastZero };
  checkMembers(name, value, checks, `${name}.`);
  const { gpu = 0, cpu = NaN, disk = NaN } = value as Partial<EngineShares>;
  if (!(Math.abs(gpu + cpu + disk - 1) < 1e-6))
    throw new UsageError(`${name}: found ${foundJson(value)}, expected shares gpu, cpu and disk that sum to 1`);
}

function checkCpuAttention(name: string, value: unknown): void {
  if (typeof value === 'number' ? !(value >= 0 && value <= 1) : typeof value !== 'boolean')
    throw new UsageError(`${name}: found ${found(value)}, expected true, false, or a share from 0 to 1`);
}

function checkFolder(name: string, value: unknown): void {
  checkText(name, value, 'the path of a folder');
  if (value === '') throw new UsageError(`${name}: found "", expected the path of a folder`);
}
