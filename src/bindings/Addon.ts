import type { GpuFacts, GpuRuntimeBytes, GpuRuntimeOptions } from './Gpu.js';
import type { RepackOptions, StoreFacts } from './Store.js';
import type { MachineFigures, ProfileOptions } from './Profile.js';
import type { GrammarAddon, NativeGrammar } from './Grammars.js';
import type { DecoderSpec } from '../model/DecoderSpec.js';
import type { TensorBinding } from '../model/TensorBinding.js';
import type { WeightTypeFacts } from '../model/weightTypes.js';

/**
 * The whole native addon, typed. Every argument is validated in C++ too; a refused call throws an Error with a `code`
 * property (see `nativeCall`).
 */
export interface Addon extends GrammarAddon {
  /** The package version that the addon was built from; the loader refuses another one. */
  readonly version: string;
  /** Which results the kernels give: results of another number are not of this build (native/kernels/numerics.h). */
  readonly numerics: number;
  /** The types that weights may be stored in: `WEIGHT_TYPES`, and what matrices are compressed to. */
  readonly weightTypes: readonly (WeightTypeFacts & { readonly name: string })[];
  machine(): MachineFacts;
  /** Maps files, checks every binding against them and reserves all pools. Reads no weights yet: `load` does. */
  openRuntime(options: RuntimeOptions): NativeRuntime;
  /**
   * Bytes that `openRuntime` with these options would reserve, by what for. Pure; allocates nothing, and opens no file:
   * with `weights` there need be no store yet.
   */
  measureRuntime(options: RuntimeOptions): RuntimeBytes;
  /**
   * Packs a model's weights for the kernels into one file that layers can stream from, on the addon's threads. It is
   * written as `store` + ".partial" (its blocks reserved first), put on the disk, and renamed. It takes about 18 MiB of
   * memory and 1 MiB a thread. A conversion that was killed or cancelled is taken up after its last whole block; any
   * other failure leaves nothing. Where there is a whole store of this fingerprint by the time that no other
   * process is writing one, nothing is done. Rejects with a coded error: `file` (a model file; a full disk; a missing
   * folder), `busy` (another process is writing the same store), `cancelled`.
   * @param onProgress gets bytes done, those taken over included, and in all; coalesced. Once it returns false the
   * conversion is cancelled.
   */
  repack(options: RepackOptions, onProgress: (bytes: number, totalBytes: number) => unknown): Promise<void>;
  /**
   * Says what is in a store, from its header. Undefined if there is no such file or it is of another fingerprint or
   * layout version: repack then. Throws a coded error `file` for a damaged or truncated one, and for a file that is no
   * store.
   */
  inspectStore(path: string, fingerprint: string): StoreFacts | undefined;
  /**
   * Measures this machine on a thread of its own, with the kernels, threads and files that runs use: about eight
   * seconds times `budget`. A disk that cannot be measured is left out, with the reason. Rejects with a coded error:
   * `cancelled`, `memory`, and for a GPU that does not exist `invalid-argument`.
   * @param onProgress gets the steps that are through, all of them, and what the next one is about, about twenty times
   * a second. Once it returns false measuring is cancelled, within some tens of milliseconds.
   */
  profile(
    options: ProfileOptions,
    onProgress: (done: number, total: number, what: string) => unknown,
  ): Promise<MachineFigures>;
}

/** `neon`, `dotprod` and `i8mm` on ARM, the others on x86; `scalar` everywhere. */
export type InstructionSet = 'scalar' | 'avx2' | 'avxvnni' | 'avx512' | 'amx' | 'neon' | 'dotprod' | 'i8mm';

export interface MachineFacts {
  /** Usable here, slowest first. The last one is the default. */
  readonly instructionSets: readonly InstructionSet[];
  /** Processors that this process may use: affinity and cgroup quota honoured. */
  readonly processors: number;
  /** The cores that these are of: fewer where some are hyperthreads of one. */
  readonly cores: number;
  /** Seconds that its threads may compute in a second, together: as many, or a cgroup's quota where that is less. */
  readonly processorSeconds: number;
  readonly processorName: string;
  /** Physical memory, or the cgroup's limit where that is lower. */
  readonly memoryBytes: number;
  /** The memory free now. */
  readonly availableBytes: number;
  readonly cacheBytes: { readonly l1d: number; readonly l2: number; readonly l3: number };
  /** NVIDIA GPUs, in CUDA's order; empty without a driver, and where the addon was built without CUDA. */
  readonly gpus: readonly GpuFacts[];
}

export interface RuntimeOptions {
  readonly decoder: DecoderSpec;
  readonly bindings: readonly TensorBinding[];
  /** Paths that the bindings' segments refer to by index. */
  readonly files: readonly string[];
  /**
   * `default`: 8-bit activations against quantised weights; `words`: the same, and matrices of floats are multiplied as
   * integers of 16 bits; `float32`: everything in float32.
   */
  readonly precision: 'default' | 'words' | 'float32';
  /** Threads of the compute queue, 1 to 1024. */
  readonly threads: number;
  /** Defaults to the best of the machine. */
  readonly instructionSet?: InstructionSet;
  readonly cache: {
    /**
     * `q8` and `q4`: groups of 64 elements of a head, asymmetric; 8.5 and 4.5 bits an element with heads of 64 or 128.
     */
    readonly type: 'f32' | 'f16' | 'q8' | 'q4';
    /** Tokens a page holds, of one layer: 16, 32, 64, 128 or 256. */
    readonly pageTokens: number;
    /** Pages a layer. Page ids are 0 to pages - 1, and page i of every layer of a group belongs to the same row. */
    readonly pages: number;
    /**
     * The group of each layer, whose page tables the layer has: groups counted from 0, without a gap. A page is as wide
     * as the widest group has layers. Default: all layers are one group. Not beside a GPU.
     */
    readonly groups?: readonly number[];
    /** Rows of which layers can remember a state at once; where some do. */
    readonly states?: number;
  };
  /**
   * Top-k sparse attention (FlexGen, section 4.2): each generated or scored token takes the values of this share of the
   * keys that it sees, those of highest score; its own always. Prompts are dense. Above 0, at most 1. Default 1: all.
   */
  readonly sparseAttention?: number;
  readonly limits: {
    /** Most tokens in one square; sizes the scratch memory. */
    readonly tokensPerSquare: number;
    /** Most rows in one square. */
    readonly rowsPerSquare: number;
  };
  /**
   * Takes the weights from a store of the same bindings instead of the model's files (which are not opened then), and
   * lets layers stream from it. Results are bitwise the same. Default: everything from the model's files into memory.
   */
  readonly weights?: {
    /** Path, as made by `repack`. */
    readonly store: string;
    /** As given to `repack`; another one in the store is an error. */
    readonly fingerprint: string;
    /**
     * How much of each layer's block is resident: rounded down to whole panels of 16 outputs, but at least norms and
     * biases. From 0 to any number.
     */
    readonly residentLayerBytes: number;
    /** Buffers that layers stream into, 1 to 4096; each is as large as the most that a layer streams. */
    readonly buffers: number;
  };
  /**
   * Room on disk, in one file that lives as long as the runtime and has no name: its space is free again however the
   * process ends. Opening fails with code `file` where the folder cannot be made or has not the space. Default: none.
   */
  readonly spill?: {
    /** Made where it is missing. Files that other processes left here when they were killed are removed. */
    readonly folder: string;
    /** Pages of the KV cache on disk, for every layer: page tables name them -1 to -pages. */
    readonly pages: number;
    /** Staging buffers, 1 to 4096, and the pages of one layer that each has room for. Both 0 where `pages` is 0. */
    readonly buffers: number;
    readonly bufferPages: number;
    /** Room for hidden stores, see `createHiddenStore`. */
    readonly hiddenBytes: number;
    /**
     * Values of chosen keys of a page that have no more bytes between them are read together: that costs less than one
     * request more. Default 0.
     */
    readonly gapBytes?: number;
  };
  /** Computes on an NVIDIA GPU. Default: the processor computes. */
  readonly gpu?: GpuRuntimeOptions;
}

export interface RuntimeBytes {
  /** Resident weights. */
  readonly weights: number;
  /** All buffers that layers stream into; 0 if nothing streams. */
  readonly weightBuffers: number;
  readonly cache: number;
  /** The state layers remember of one row. */
  readonly state: number;
  readonly scratch: number;
  /**
   * One activation buffer of `limits.tokensPerSquare` tokens; with pages on disk it has room for a square's new keys
   * and values too.
   */
  readonly activations: number;
  /** All staging buffers for pages on disk. */
  readonly staging: number;
  /** As much again where sparse attention takes values of chosen keys alone from disk: for such values. Else 0. */
  readonly held: number;
  /** The spill file: disk, not memory. */
  readonly spill: number;
  /** The size of one page of one layer, on disk and in a staging buffer: a multiple of 4096. */
  readonly pageSlot: number;
  /**
   * Where sparse attention takes values of chosen keys alone from disk, what it reads of a page before: its keys, in
   * whole blocks. Else, and as long as nothing is open, 0.
   */
  readonly pageKeys: number;
  /** The spill file is read in whole blocks of so many bytes; as long as it is not open 4096. */
  readonly spillBlock: number;
  /**
   * Bytes that each layer's `submitLoadWeight` moves; 0 for a layer that is wholly resident (with `gpu`: on the
   * device).
   */
  readonly streamed: readonly number[];
  /** The bytes of experts among `streamed`; 0 for layers without. */
  readonly streamedExperts: readonly number[];
  /**
   * The device's figures, with `gpu`; the numbers above are the host's then (`activations`: 0). What is reserved beside
   * these is left for activation buffers.
   */
  readonly gpu?: GpuRuntimeBytes;
}

/** Changes of a row's logits; see `LogitAdjustments` in native/kernels/cpu/Sampling.h. */
export interface NativeAdjustments {
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly biasedTokens: Int32Array;
  /** One for each of `biasedTokens`. */
  readonly biases: Float32Array;
  /** These do not come before `minNewTokens` have. */
  readonly endTokens: Int32Array;
  readonly minNewTokens: number;
  /** The last token of each does not come after the others; at least one token each, 65,536 of them at most. */
  readonly badWords: readonly Int32Array[];
}

/** A sequence that grows by sampling. Handles are small integers, reused after `freeRow`. */
export interface NativeRowOptions {
  /** The prompt; at least one token. For scoring: the whole text. */
  readonly tokens: Int32Array;
  /**
   * Most tokens the row will ever hold, prompt and new ones: at most one more than the model's context, as the last one
   * is never computed.
   */
  readonly capacityTokens: number;
  /**
   * How many of `tokens`, from the first, are a prompt, for which attention is dense; more where they only begin it.
   * Default: all.
   */
  readonly promptTokens?: number;
  /** 0 = greedy. */
  readonly temperature: number;
  /** 1 = off. */
  readonly topP: number;
  /** 0 = off. */
  readonly topK: number;
  /** 0 = off. */
  readonly minP: number;
  /** 1 = off. */
  readonly repetitionPenalty: number;
  /** 32 bits; the row's random numbers depend on the seed and the position alone. */
  readonly seed: number;
  /**
   * How many alternatives to report with each token; -1 reports no log-probabilities at all. At most the vocabulary.
   */
  readonly logprobs: number;
  /** Where layers remember a state: its number, under `cache.states`, that no other row has. */
  readonly state?: number;
  /** The grammar the sampled tokens follow. Default: any may come. */
  readonly grammar?: NativeGrammar;
  /** Other changes to the row's logits before a token is chosen. Default: nothing. */
  readonly adjustments?: NativeAdjustments;
  /**
   * Tokens that are reported with each token, in this order, instead of the most likely alternatives. At most as many
   * as the vocabulary has. Default: those.
   */
  readonly candidates?: Int32Array;
  /** Report with each token how likely it was among those that might come. Default false. */
  readonly certainty?: boolean;
  /**
   * Where its head would sample, the row has an embedding instead: the hidden state after the final norm of its last
   * token, the mean of those of all, the first one's, the largest number of all in each dimension, or the mean in
   * which token i weighs i + 1; then what the model's layers over pooled states make of it. Default: it samples.
   */
  readonly pooling?: 'last' | 'mean' | 'first' | 'max' | 'weightedmean';
  /** Tokens from this position on are of type 1, those before of type 0, where the model has types. Default: all 0. */
  readonly secondText?: number;
}

/** The head's work for a row of a batch. */
export const HEAD_MODES = {
  /** Nothing: a chunk in mid-prompt. */
  none: 0,
  /**
   * Samples from the logits of the range's last token, which must be the row's last known one, and appends the result
   * to the row.
   */
  sample: 1,
  /** Log-probability of the row's own next token after each token of the range that has one (perplexity). */
  score: 2,
} as const;

/**
 * Integers per row in the `rows` array of `createBatch`: row handle, first position, tokens, head mode, first page
 * (index into `pages`), page count, tail. An entry of `pages` from 0 up is a page in memory; -1 - d is page d on disk.
 * A row with any page on disk names a page in memory as its tail (-1: none): tokens of a page on disk stand there until
 * the page is complete. The tail may itself be in the row's table, after all pages on disk. Where layers are in several
 * groups (`cache.groups`), a row has a table a group, one after the other and of `page count` pages each, and the tails
 * of the further groups follow its seven integers. A page that no layer of its group sees any more may be -2^31.
 */
export const BATCH_STRIDE = 7;

/** Parts of a layer's compute; each is a task of its own, so that attention can run elsewhere. */
export const COMPUTE_PARTS = {
  /** Token (and position) embeddings into the slot's activations. Layer is ignored. */
  embed: 0,
  /**
   * Norm, q k v, q/k norms, rotation; writes k and v into the cache's pages (for a batch with pages on disk: into the
   * activations, for `attend`).
   */
  project: 1,
  /** Attention over the pages. */
  attend: 2,
  /** Output projection, residual, feed-forward. */
  finish: 3,
  /** Final norm, language-model head, sampling or scoring, for the rows that ask for it. Layer is ignored. */
  head: 4,
  /**
   * `finish`, where these are a share of each layer (`decoder.share`). Output projection; where branches are parallel,
   * plus feed-forward. It leaves this share's sum as the buffer's branch, which comes with the completion (`hidden`).
   */
  output: 5,
  /** Residual with the sum of all shares, which has been written as the branch; feed-forward, whose branch comes. */
  feedForward: 6,
  /** Residual with the last branch, which is the sum of all shares by then. */
  add: 7,
  /** `project`, `attend` and `finish` in one, where the processor computes and the batch has no pages that move. */
  layer: 8,
} as const;
export type ComputePart = keyof typeof COMPUTE_PARTS;

export interface NativeRuntime {
  readonly bytes: RuntimeBytes;
  readonly instructionSet: InstructionSet;
  /** The code that multiplies on the GPU: `own`, or `cublaslt` and its version. Empty without `gpu`. */
  readonly gpuProducts: string;
  /**
   * Prompts of as many tokens are multiplied in another way than those of fewer: the bits of all of their tokens depend
   * on it. 0: none are.
   */
  readonly longPromptTokens: number;
  /**
   * Bytes really read from the store and the spill file, and written to the spill file, so far: the payload of requests
   * that succeeded.
   */
  readonly moved: { readonly read: number; readonly written: number };

  /**
   * Reads and repacks all weights on the addon's threads; with a store: reads what is resident. Rejects with a coded
   * error that names file and tensor (store: layer and offset of what does not match its checksum). `onProgress` gets
   * bytes done of the model's files (of `bytes.weights`), coalesced.
   */
  load(onProgress: (bytes: number) => void): Promise<void>;

  /**
   * Called with everything that completed since the last call, in order of completion; not at once for each task, but
   * before a queue runs out of work or waits for an event, for results and failures, and with the first completion 10
   * ms after the last call. Set once, before the first submit.
   */
  onCompleted(callback: (completions: NativeCompletions) => void): void;

  createRow(options: NativeRowOptions): number;
  /** The row must not be part of a batch whose tasks have not all completed: refused otherwise. */
  freeRow(row: number): void;

  /** A buffer for the hidden states of `tokens` tokens, at most `limits.tokensPerSquare`. */
  createActivations(tokens: number): number;
  freeActivations(activations: number): void;

  /**
   * The rows and token ranges of one (pass, slot), shared by the tasks of all its layers. See BATCH_STRIDE. Freed with
   * `freeBatch`; running tasks keep it alive. `copies`, two integers each: index of a range, and a page in memory (and
   * one for each further group of layers). In
   * each layer the page that the range's first position stands in begins as a copy of that one; the row's tail, where
   * that page is on disk. `comes`, with `gpu.sharesAttention`, an integer a row: how many of its pages, from the first,
   * the GPU attends to; those that are there count. Empty: all of them.
   */
  createBatch(rows: Int32Array, pages: Int32Array, copies?: Int32Array, comes?: Int32Array): number;
  freeBatch(batch: number): void;

  /**
   * Queues one part of a layer's compute on the FIFO compute queue and returns its event: an integer from 1,
   * increasing. It starts when every event in `after` has completed; if one of them failed, it fails too, with code
   * `dependency`. With pages in host memory beside a GPU that they do not come to, `attend` has a queue of its own, and
   * parts overtake those that wait: each has to be told the one before it.
   * @param buffer where the layer was loaded to. `project` and `finish` of a layer that streams need it, and fail with
   * code `invalid-argument` if it does not hold the layer when they start; the other parts and other layers take no
   * notice of it. Default -1: none.
   * @param cacheBuffer the staging buffer of the square's pages on disk. `attend` needs it where the square stages any:
   * pages that were complete before (and are not wholly outside the layer's window) and pages that become complete.
   * Where it stages any of the former, the buffer must hold what `submitLoadCache` read, else `attend` fails with code
   * `invalid-argument`. Other parts take no notice of it. Default -1: none.
   */
  submitCompute(
    part: number,
    layer: number,
    batch: number,
    activations: number,
    after: readonly number[],
    buffer?: number,
    cacheBuffer?: number,
  ): number;

  /**
   * Queues the reading of what streams of a layer into a buffer, on the FIFO queue of disk reads, and returns its
   * event. `after` as above: it must contain the last tasks that compute with what the buffer holds now; a buffer found
   * in use is an error `invalid-argument`, and what does not match its checksum (looked at when a layer is first read,
   * and again once somebody has written to the store), or cannot be read, an error `file` that names store, layer and
   * offset. Refused for layers that are wholly resident. `chosen`: once a layer was looked at, its experts are left
   * out, and tasks that compute with the buffer read those that their tokens go to. Not with `gpu`, where all come.
   */
  submitLoadWeight(layer: number, buffer: number, after: readonly number[], chosen?: boolean): number;

  /**
   * Queues the reading of a square's pages that are complete on disk into a staging buffer, on the queue of disk reads.
   * `after` must contain the stores of these pages (a page that was not stored is an error `invalid-argument`) and the
   * last tasks that use the buffer: it is an error `invalid-argument` if one of them runs; if one is still to come,
   * that one will fail. Not needed, and nothing happens, where the square has no such pages.
   */
  submitLoadCache(layer: number, batch: number, buffer: number, after: readonly number[]): number;

  /**
   * Queues the writing of a square's pages on disk that its range made complete, from the staging buffer that `attend`
   * used, on the FIFO queue of disk writes; `after` must contain that `attend`. Not needed, and nothing happens, where
   * no page became complete. After a failure the pages hold nothing.
   */
  submitStoreCache(layer: number, batch: number, buffer: number, after: readonly number[]): number;

  /**
   * Room for the hidden states of `tokens` tokens (at most `limits.tokensPerSquare`) between two layers: the first
   * `residentTokens` in memory, the rest in the spill file (`hiddenSize` x 4 bytes a token, rounded up to 4096 in all).
   * Refused without `spill`, and where `spill.hiddenBytes` has no room left.
   */
  createHiddenStore(tokens: number, residentTokens: number): number;
  /** Its room is free again when the tasks that use it have completed. */
  freeHiddenStore(store: number): void;

  /**
   * Queues the moving of the first `tokens` hidden states from a store into an activation buffer, on the queue of disk
   * reads. Fails with code `invalid-argument` for more tokens than were stored.
   */
  submitLoadActivation(store: number, activations: number, tokens: number, after: readonly number[]): number;
  /** The way back, on the queue of disk writes. Tasks that change the activation buffer must come after it. */
  submitStoreActivation(store: number, activations: number, tokens: number, after: readonly number[]): number;

  /**
   * Queues a copy of the first `tokens` hidden states of an activation buffer, on a queue for peers; it comes with the
   * completion. Refused where the runtime holds all of the model's layers (`decoder.part`, `decoder.share`).
   */
  submitReadHidden(activations: number, tokens: number, after: readonly number[]): number;
  /**
   * Takes numbers that came with a completion (`hidden`) back: those of a later one that are as many come in the same
   * array. Nobody may look at them any more.
   */
  giveBackHidden(hidden: Float32Array): void;
  /**
   * An event that no task completes, but `completeEvent` or `failEvent` (code `peer`), once. Tasks may wait for it.
   * `cancelAll` and `close` fail it with code `cancelled`.
   */
  createEvent(): number;
  completeEvent(event: number): void;
  failEvent(event: number, message: string): void;
  /**
   * Puts hidden states into an activation buffer, at once: [tokens, hiddenSize], row-major. No task may be using the
   * buffer; those that wait for an event of `createEvent` which has not completed are no matter.
   * @param branch what a branch adds, of all shares, instead. Default false
   */
  writeHidden(activations: number, hidden: Float32Array, branch?: boolean): void;
  /**
   * Where a share attends to some rows (`decoder.share.attention`): puts queries, keys and values of all heads of a
   * batch's tokens there, one token after the other, for its `attend` in that layer. As above, at once.
   */
  writeRows(activations: number, batch: number, layer: number, rows: Float32Array): void;
  /** Puts what attention has given of the share's heads, of all rows, in place of its queries. */
  writeAttended(activations: number, attended: Float32Array): void;
  /**
   * Appends a token to each of some rows, at once, as sampling does; what is past a row's capacity is dropped. As
   * above, no task may be using the rows' tokens.
   */
  appendTokens(rows: Int32Array, tokens: Int32Array): void;
  /**
   * Copies keys and values of whole pages in memory, of all layers: of one layer after the other, each layer's in the
   * order of `pages`. No task may be writing them. Refused where layers do not all keep all positions of rows in
   * memory, and with a GPU.
   */
  readPages(pages: Int32Array): Uint8Array;
  /** Puts such a copy, of this runtime's or an equal one's, into pages that no task uses. */
  writePages(pages: Int32Array, bytes: Uint8Array): void;

  /** Everything that has not started completes with code `cancelled`; what runs finishes. */
  cancelAll(): void;

  /** Cancels, waits for the threads, frees all memory. Idempotent. */
  close(): Promise<void>;
}

export interface NativeCompletions {
  /**
   * Four numbers a completion: event, start and end in seconds (performance.now()'s clock: CLOCK_MONOTONIC), 0 = fine
   * or 1 = failed.
   */
  readonly events: Float64Array;
  /** For the failed ones, in the same order. */
  readonly errors: readonly NativeTaskError[];
  /** For the head tasks among them that sampled or scored something. */
  readonly heads: readonly NativeHeadResult[];
  /**
   * For those of `submitReadHidden`, and what a share of the layers has embedded, and its branches: [tokens,
   * hiddenSize]. Where it attends
   * to some rows, for `project` each token's queries, keys and values, and for `attend` its outputs of all heads.
   */
  readonly hidden: readonly { readonly event: number; readonly hidden: Float32Array }[];
  /**
   * For loads of pages on disk of which values of chosen keys come alone, and for the `attend` tasks that read these
   * values: the bytes, and when they were read.
   */
  readonly read: readonly {
    readonly event: number;
    readonly bytes: number;
    readonly start: number;
    readonly end: number;
  }[];
}

export interface NativeTaskError {
  readonly event: number;
  readonly code: string;
  readonly message: string;
  /** The parts of the message, with code `file`. */
  readonly file?: string;
  /** E.g. `layer 3 at offset 4096`. */
  readonly field?: string;
  readonly found?: string;
  readonly expected?: string;
}

export interface NativeHeadResult {
  readonly event: number;
  /**
   * Row handles that sampled, in the batch's order, and the sampled token of each. One below 0 is none, for the row's
   * logits are not finite: HeadResult in native/model/ComputeTask.h.
   */
  readonly rows: Int32Array;
  readonly tokens: Int32Array;
  /**
   * Log-probability of each sampled token under the model's own distribution (before penalties, temperature and
   * truncation); NaN where the row asked for none.
   */
  readonly logprobs: Float32Array;
  /** Alternatives, best first: for row i the next `topCounts[i]` entries of topTokens and topLogprobs. */
  readonly topCounts: Int32Array;
  readonly topTokens: Int32Array;
  readonly topLogprobs: Float32Array;
  /**
   * How likely each row's token was, under the model's own distribution over those that its grammar allowed; NaN where
   * there was no other, and of rows that did not ask. Empty where none did.
   */
  readonly certainties: Float32Array;
  /** Where each row's grammar is after its token (GRAMMAR_PLACES; -1 of rows without); empty where no row has one. */
  readonly places: Int32Array;
  /** Why grammars failed, of those that did, in the order of `places`. */
  readonly failures: readonly string[];
  /**
   * Tokens that a grammar forces after each row's token: how many, and one row's after another's; empty where no row
   * has a grammar.
   */
  readonly forcedCounts: Int32Array;
  readonly forcedTokens: Int32Array;
  /** Which of `rows` have an embedding instead of a token, and these one after another, as wide as what pooled
   * states come to. */
  readonly embedded: Int32Array;
  readonly embeddings: Float32Array;
  /**
   * Scored rows: handle, first position, count; `scores` holds their log-probabilities one after another, NaN where the
   * logits are not finite.
   */
  readonly scored: Int32Array;
  readonly scores: Float32Array;
}
