import type { InstructionSet } from './bindings/Addon.js';
import type { GpuProducts } from './bindings/Gpu.js';
import type { EnginePlan } from './engine/open/EnginePlan.js';
import type { StoreHolder } from './engine/store/storeHolder.js';
import type { HardwareProfile } from './plan/HardwareProfile.js';
import type { MemoryBudget } from './MemoryBudget.js';
import type { ScheduleName } from './engine/schedules/blockSchedules.js';
import type { Policy } from './plan/Policy.js';
import type { ProfileProgress } from './profile/profileMachine.js';
import type { ExpectedRows } from './ExpectedRows.js';
import type { LayerRange } from './model/partOf.js';
import type { LayerShare } from './model/dividedLayer.js';
import type { WeightCompression, WeightsLayout } from './model/compressBindings.js';
import type { PullProgress } from './model/pull/ModelDownload.js';
import type { Tokenizer } from './model/Tokenizer.js';
import type { Size } from './units.js';

/** The share of something that lives on each tier; the three sum to 1. */
export interface EngineShares {
  /** Above 0 with `gpuMemory` only. Default 0. */
  readonly gpu?: number;
  readonly cpu: number;
  readonly disk: number;
}

/** How a model is opened. Everything has a default but the model; an option of another name is refused. */
export interface EngineOptions {
  /**
   * A GGUF file, a folder with config.json and safetensors, or a name such as `smollm2-135m-instruct`, which is fetched
   * if need be: see `resolveModel`.
   */
  readonly model: string;
  /**
   * Only these of the model's layers, where other engines have the others: see `Engine.follow`. Embedding and head come
   * with the first and the last layer. Each may compute on a GPU or not; `cache` has to put the same share of a row's
   * pages on the GPU everywhere (0 beside engines without one). Default: all of them.
   */
  readonly layers?: LayerRange;
  /**
   * A share of every layer, where other engines have the others (tensor parallelism): which one, from 0, of how many.
   * Heads and feed-forward columns are divided, and have to divide evenly; embedding and head come with share 0, which
   * generates while the others follow: see `Engine.follow`. Results depend on how many there are. On processors alone,
   * and not beside `layers`. Default: all of each layer.
   */
  readonly tensorParallel?: LayerShare;
  /**
   * `default`: activations rounded to 8 bits for products with quantised weights; `float32`: all in float32, for
   * checking, slower.
   */
  readonly precision?: 'default' | 'float32';
  /**
   * How many rows share a pass, in which order, and what lives where. `auto` plans for this machine, this model and
   * `expectedRows`, by lossless means alone: it measures the machine once (seconds; kept for the next time), and not at
   * all for models or jobs so small that it could not pay. `default`: one batch of 64 rows, everything in memory if it
   * fits. A policy is what `choosePolicy` finds and `plan --json` prints (the whole document is taken as well), or what
   * an earlier run had, `parsePolicy(stats.policy, 'stats')`; fields that are missing are filled in as in a policy
   * file. Options given beside it override it. Default `auto`.
   */
  readonly policy?: 'auto' | 'default' | Policy;
  /**
   * The machine to plan for: a profile, such as `readHardware` reads from a file. Default `this`: measured, or what was
   * measured before.
   */
  readonly hardware?: HardwareProfile | 'this';
  /**
   * True where predictions on this machine are corrected by what earlier runs took, and this engine's runs correct
   * those of later ones; kept beside the machine's profile. Nothing is learned by a `hardware` that is given, with
   * policy `default`, or with other `gpuProducts` than `own`. Default true.
   */
  readonly learn?: boolean;
  /**
   * The rows that are to come, or a way to find out, called with the model's tokenizer, such as `(tokenizer) =>
   * estimateRows(rows, tokenizer)` of `spillway/jobs`. Default, also where it finds nothing: many, of 384 and 128
   * tokens.
   */
  readonly expectedRows?: ExpectedRows | ((tokenizer: Tokenizer) => Promise<ExpectedRows | undefined>);
  /**
   * Most seconds that a block of rows may take, from its first prompt to its last token, by itself, as the plan
   * predicts it: rows of the lengths that are expected, as many as the block has places. The plan is the fastest of
   * those that keep it, and there has to be one: with `policy: 'auto'` alone; the error where there is none names the
   * least that was found. Nothing is timed while rows run. Default: any.
   */
  readonly maxLatency?: number;
  /** The order of the work, where a run does not say. Default: `diagonal`, or what the policy says. */
  readonly schedule?: ScheduleName;
  /**
   * Stores matrices in fewer bits than their file has: `8bit` in groups of 32; `4bit` in groups of 64 with scale and
   * minimum, embeddings and head at 8 bits. Vectors and routers keep their precision, and so does what has as few bits
   * in the file. `auto`: whatever is fastest. Default `none`.
   */
  readonly compressWeights?: WeightCompression | 'auto';
  /**
   * `int8`: matrices, and the activations that they are multiplied with, are rounded to 8 bits with one scale a row, so
   * that products are sums of integers: faster for many rows. Changes results; on the processor alone, without
   * `compressWeights`; no plan chooses it. Default `as-is`: as the file has them, or `compressWeights` says.
   */
  readonly weightsLayout?: WeightsLayout;
  /**
   * Keys and values rounded to so many bits, in groups of 64 elements with a scale and a minimum each: the cache takes
   * 4.5 or 8.5 bits an element instead of 16 (32 with precision `float32`). Changes results. `auto`: whatever is
   * fastest. Default `none`.
   */
  readonly compressCache?: 'none' | '8bit' | '4bit' | 'auto';
  /**
   * Each generated token takes the values of this share of the tokens before it, those that score highest; prompts are
   * dense, texts that are scored are not. Above 0, at most 1. Changes results. Default 1: all.
   */
  readonly sparseAttention?: number;
  /**
   * `sinks:S,window:N` (StreamingLLM): a token sees the pages of its row's first S tokens and those of the last N, up
   * to itself, in layers that would see all; pages between are given back, so that long rows take no more memory.
   * Lossy: what was in them is forgotten. On the processor, with the cache in memory. Default `none`: nothing is let
   * go.
   */
  readonly kvEviction?: string;
  /**
   * Memory of the first GPU that may be used: one reservation, a hard cap; what CUDA itself takes comes on top. With it
   * the GPU computes, and weights, KV cache and hidden states live on three tiers. Runs that overlap need room for
   * hidden states each. Default 0: the processor computes. (Results were right on an H200; how fast it will be is
   * not predicted well yet, so nothing is computed there unasked.)
   */
  readonly gpuMemory?: Size;
  /**
   * The code that multiplies on the GPU. `own`: the engine's kernels alone. `cublaslt`: prompts of 128 tokens and more
   * by NVIDIA's cuBLASLt, of an installed CUDA toolkit or Python wheel, or the file that SPILLWAY_CUBLASLT names; an
   * error where it cannot be used. `auto`: that where it can be used, else `own`. A row's result does not depend on its
   * company in any of them, but it differs between them in its last bits, and `cublaslt`'s between versions of the
   * library. Takes up to 96 MiB of `gpuMemory`; without meaning in precision `float32`. `profile` measures both.
   * Default `own`.
   */
  readonly gpuProducts?: GpuProducts;
  /** Cap on the process's resident memory. Default: what the machine or its cgroup has free, less a margin. */
  readonly cpuMemory?: Size;
  /**
   * Memory that this engine shares with other engines of the process: it may take what they leave of it, and no more
   * than `cpuMemory`, where that is given. Default: an engine counts what the process holds when it is opened, and
   * knows nothing of what other engines have reserved and not used yet.
   */
  readonly memoryBudget?: MemoryBudget;
  /** Compute threads. Default: the processors that this process may use. */
  readonly threads?: number;
  /**
   * The device that computes: `cuda` needs `gpuMemory`; `auto` is the GPU where `gpuMemory` is given, else the
   * processor.
   */
  readonly device?: 'auto' | 'cpu' | 'cuda';
  /** Most rows that are generated at once in one batch. Default: chosen from the model and the memory. */
  readonly batchSize?: number;
  /**
   * Batches that share one pass over the layers. Default 1 while everything fits in memory; of a part of the model's
   * layers as many as such parts make the model, 8 at most; of shares of each layer 2.
   */
  readonly batches?: number;
  /** Most tokens in one square; longer prompts are computed in chunks. Default: chosen from the model. */
  readonly tokensPerSquare?: number;
  /**
   * Tokens of a usual row, prompt and answer, where `expectedRows` does not say. While something streams from disk, the
   * cache of a full block is provided for rows of this length, and memory beyond it keeps weights; longer rows are
   * admitted as memory comes free. Or a way to find out, called with the model's tokenizer. Default, also where it
   * finds nothing: 512.
   */
  readonly rowTokens?: number | ((tokenizer: Tokenizer) => Promise<number | undefined>);
  /**
   * Default: the last that `machine().instructionSets` names: on x86 of `avx2`, `avxvnni`, `avx512` and `amx`, on ARM
   * of `neon`, `dotprod` and `i8mm`. `amx` rounds weights and activations to bfloat16, and is the fastest for batches
   * of eight rows and more; for fewer, `avx512` is. Results of `amx` differ from those of the others, which are the
   * same to the bit.
   */
  readonly instructionSet?: InstructionSet;
  /**
   * The share of every layer's weights that stays on the GPU and in memory; the rest streams from disk in every pass.
   * The three sum to 1. Default: on the GPU what fits there, in memory what fits there of the rest.
   */
  readonly weights?: EngineShares;
  /**
   * The share of each row's KV cache that lives on the GPU, in memory, and on disk; the three sum to 1. Attention
   * happens where a page is, for those on disk on the processor, unless `cpuAttention` is off. With pages on disk a row
   * keeps at least one in memory, where new tokens stand until their page is complete. Compressed caches have the same
   * pages everywhere. Default: on the GPU what fits there beside the weights, the rest in memory.
   */
  readonly cache?: EngineShares;
  /**
   * With `gpuMemory`: attention to what of the cache is not on the GPU happens on the processor, and these pages stay
   * where they are. `false`: they come to the GPU, square by square while the square before attends, and new keys and
   * values go back; the answers have the bits of a cache that is on the GPU. Rows are then no longer than a buffer
   * there has room for: one of 4096 tokens and a full batch of `rowTokens` each in any case, and up to the context
   * where `gpuMemory` has that left over beside weights and a full block's cache. Longer ones fail as `memory`. A share
   * between 0 and 1: of each row's pages that are not on the GPU the processor attends to so many, the last ones, and
   * those before come to the GPU, both at once; a row's answer has the bits of a cache of which those that the GPU
   * attends to are there. Default true.
   */
  readonly cpuAttention?: boolean | number;
  /**
   * The share of a square's hidden states that stays in memory between two layers, and the share that goes to disk.
   * With a GPU, the share of the batches whose hidden states stay there, a whole number of them; those of the others
   * are divided between memory and disk. The three sum to 1. Default: all where it is computed.
   */
  readonly activations?: EngineShares;
  /**
   * Folder for repacked models, made when a model does not fit into memory and kept for the next time (a damaged one is
   * made anew), and for what a run spills, which does not outlive it. Default: the user's cache folder.
   */
  readonly disk?: string;
  /** Most space that all of it may take there. Default: what is free. */
  readonly diskMemory?: Size;
  /**
   * Called while a model that is given by a name is fetched: when a source is tried, as bytes arrive (at most ten times
   * a second) and at the end.
   */
  readonly onDownload?: (progress: PullProgress) => void;
  /** Called while this machine is measured, for the first plan on it. */
  readonly onProfile?: (progress: ProfileProgress) => void;
  /** Called when it is settled by which plan the model will be opened. */
  readonly onPlan?: (plan: EnginePlan) => void;
  /** Called while files of the model are hashed, once for each: see `Engine.resultIdentity`. */
  readonly onIdentify?: (bytes: number, totalBytes: number) => void;
  /**
   * Called when another process turns out to be repacking this model, which is waited for; and when it is another one
   * from then on.
   */
  readonly onWait?: (holder: StoreHolder) => void;
  /** Called while a model that does not fit is repacked. */
  readonly onRepack?: (bytes: number, totalBytes: number) => void;
  /** Called while the weights are loaded. */
  readonly onLoad?: (bytes: number, totalBytes: number) => void;
  readonly signal?: AbortSignal;
}
