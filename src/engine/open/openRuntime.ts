import type { Addon, NativeRuntime, RuntimeBytes, RuntimeOptions } from '../../bindings/Addon.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { EngineOptions } from '../../EngineOptions.js';
import type { ExpectedRows } from '../../ExpectedRows.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { compressBindings } from '../../model/compressBindings.js';
import type { ModelIdentity } from '../../model/identity/identifyModel.js';
import type { ModelSource } from '../../model/ModelSource.js';
import type { SpilledActivations } from '../execution/SlotActivations.js';
import type { DiskCache } from '../memory/PagePool.js';
import { planMemory } from '../memory/planMemory.js';
import { planSpill, type SpillPlan } from '../memory/planSpill.js';
import { planStreaming } from '../memory/planStreaming.js';
import { pagesOfRows, placePages } from '../memory/rowPlacement.js';
import { openWeightStore, type WeightStore } from '../store/openWeightStore.js';
import type { EnginePlan } from './EnginePlan.js';
import { planEngine, type PlannedEngine } from './planEngine.js';
import { withPolicy } from './policyOptions.js';
import { gpuTier, type GpuTier } from './gpuTier.js';
import { PAGE_TOKENS, processBytes, type ProcessBytes } from '../../plan/reserves.js';
import type { Grid } from '../grid/Square.js';
import { settleOptions, type Settings } from './settleOptions.js';
import { smallerBlocks } from './smallerBlocks.js';
import { withStoreRemedy } from '../store/storeRemedy.js';

/** What was decided for an engine: the grid of its runs, and where its weights, KV cache and hidden states are. */
export interface SettledOptions extends Settings {
  readonly planned: PlannedEngine;
  /** Places for rows: in a batch there may be more than are planned, for the case that rows turn out shorter. */
  readonly grid: Grid;
  readonly cache: RuntimeOptions['cache'];
  /** The part of the cache that lives on disk. */
  readonly diskCache: DiskCache;
  /** What is on the GPU; undefined where the processor computes. */
  readonly gpuTier: GpuTier | undefined;
  /** Buffers for pages of the disk; 0 where the cache is all in memory. */
  readonly cacheBuffers: number;
  readonly activations: SpilledActivations | undefined;
  /** Bytes of one page, all layers together, in memory; and of one layer of it on disk. */
  readonly pageBytes: number;
  readonly pageSlotBytes: number;
  /** What the runtime reserved in memory, and what lies on disk. */
  readonly reservedBytes: number;
  readonly storeBytes: number;
  /** The repacked model, where something streams. */
  readonly storePath: string | undefined;
  readonly spillBytes: number;
  /** Layers' weights that are in memory at once while they stream; 0 where nothing does. */
  readonly weightBuffers: number;
  /** Bytes of each layer, and how many of them are brought to where computing happens every pass. */
  readonly layerBytes: readonly number[];
  readonly streamedBytes: readonly number[];
  /** What of `streamedBytes` comes from disk: with a GPU some of it may be in memory. */
  readonly fromDisk: readonly number[];
}

/** Contexts beyond this are not provided for in every row at once; longer rows are admitted as pages come free. */
const USUAL_ROW_TOKENS = 4096;
/** A budget must hold at least a row of this many tokens. */
const LEAST_ROW_TOKENS = 512;
/** A batch may come to have so many times the rows that were planned. */
const GROWTH = 2;
/** One layer is computed while the next one is read. */
const WEIGHT_BUFFERS = 2;
const COMPRESSED_CACHE = { '8bit': 'q8', '4bit': 'q4' } as const;

/**
 * Settles every option, by a plan where there is one, plans the memory, and opens the native runtime; its weights are
 * not loaded yet. A model that does not fit into memory is repacked, once, and its layers stream from disk.
 * @param identity of the model's files
 * @param expected the rows that are to come, if known
 * @param rowTokens tokens of a usual row, if known
 * @throws UsageError, MemoryBudgetError, ModelFileError
 */
export async function openRuntime(
  model: ModelSource,
  identity: ModelIdentity,
  caller: EngineOptions,
  expected: ExpectedRows | undefined,
  rowTokens: number | undefined,
): Promise<{ readonly runtime: NativeRuntime; readonly settled: SettledOptions }> {
  const addon = loadAddon();
  const machine = nativeCall(() => addon.machine());
  const settle = (options: EngineOptions): Settings => settleOptions(options, machine, rowTokens);
  const first = settle(caller);
  const planned = await planEngine(model, caller, first, machine, expected);
  const taken = processBytes(process.memoryUsage.rss(), model.decoder.vocabularySize);
  const { plan, pages, reservedBytes, residentLayerBytes } = fittingPlan(
    planned,
    withPolicy(caller, first.gpu !== undefined),
    settle,
    (settings, block) => fitted(new RuntimePlan(addon, model, settings, block), taken, expected),
  );
  caller.onPlan?.(plan.planned.plan);
  if (residentLayerBytes === undefined) return plan.open(pages, reservedBytes);
  plan.checkDisk(plan.mostStoreBytes);
  const store = await openWeightStore(addon, plan.source, identity, {
    folder: plan.settings.disk,
    threads: plan.settings.threads,
    signal: caller.signal,
    onWait: caller.onWait,
    onProgress: (bytes) => caller.onRepack?.(bytes, plan.modelBytes),
  });
  const least = plan.gpu ? 0 : Math.max(...store.vectorBytes);
  try {
    return plan.open(pages, reservedBytes, store, least + residentLayerBytes);
  } catch (error) {
    throw withStoreRemedy(error, store.path);
  }
}

/** What fits the memory: how many pages of cache, and where layers stream how much of each stays in memory. */
interface Fitted {
  readonly plan: RuntimePlan;
  readonly pages: number;
  readonly reservedBytes: number;
  /** Beyond norms and biases; undefined where nothing streams. */
  readonly residentLayerBytes?: number;
}

/**
 * The first block that fits, from the one that was planned down to a row alone.
 * @param given what the caller says, by options and policy
 * @throws MemoryBudgetError with the smallest cap that works for any of them
 */
function fittingPlan(
  planned: PlannedEngine,
  given: EngineOptions,
  settle: (options: EngineOptions) => Settings,
  fit: (settings: Settings, block: PlannedEngine) => Fitted,
): Fitted {
  let refusal: MemoryBudgetError | undefined;
  for (const options of smallerBlocks(planned.options, given, (given.policy ?? 'auto') === 'auto')) {
    const settings = settle(options);
    const { slots: batches, rowsPerSlot: batchSize, tokensPerSquare } = settings;
    const { origin, workload, notes } = planned.plan;
    const smaller: EnginePlan = {
      origin: origin === 'policy' ? 'policy' : 'default',
      ...(workload && { workload }),
      ...(notes && { notes }),
      smallerBlock: { batchSize, batches, tokensPerSquare },
    };
    try {
      return fit(
        settings,
        options === planned.options ? planned : { ...planned, plan: smaller, options, streams: false },
      );
    } catch (error) {
      if (!(error instanceof MemoryBudgetError)) throw error;
      // A smaller block may fit one tier and then lack another; what it would spill is nothing to give advice by.
      if (
        refusal === undefined ||
        (error.tier === refusal.tier ? error.neededBytes < refusal.neededBytes : error.tier === 'cpu')
      )
        refusal = error;
    }
  }
  throw refusal ?? new RangeError('no block was tried');
}

/** @throws MemoryBudgetError with the smallest cap that works for this block */
function fitted(plan: RuntimePlan, taken: ProcessBytes, expected: ExpectedRows | undefined): Fitted {
  const {
    settings: { capBytes, weightShare, slots, rowsPerSlot, rowTokens },
    source: { decoder },
  } = plan;
  // On a GPU every row is provided for in full. The page in which a prefix ends stands beside those that begin as
  // copies of it.
  const sharedTokens = plan.gpu
    ? 0
    : Math.min(expected?.sharedPrefixTokens ?? 0, Math.min(rowTokens, decoder.contextTokens) - 1);
  const usualRows = Math.max(1, Math.min(slots * rowsPerSlot, expected?.rows ?? Infinity));
  const usualPages =
    pagesOfRows(plan.rowPages(rowTokens), usualRows, Math.floor(sharedTokens / PAGE_TOKENS)).memory +
    (sharedTokens > 0 ? 1 : 0);
  const pagesOf = (tokens: number): number => plan.rowPages(tokens).memory;
  const demand = { capBytes, ...taken, leastPages: pagesOf(LEAST_ROW_TOKENS), pageBytes: plan.onePage.cache };
  let tooSmall: MemoryBudgetError | undefined;
  if (!plan.planned.streams && (weightShare === undefined || weightShare === 1)) {
    try {
      const mostPages = Math.max(
        pagesOf(decoder.contextTokens),
        pagesOf(USUAL_ROW_TOKENS) * slots * rowsPerSlot,
        usualPages,
      );
      return {
        plan,
        ...planMemory({ ...demand, weightBytes: plan.onePage.weights, workingBytes: plan.workingBytes, mostPages }),
      };
    } catch (error) {
      // Streaming keeps two layers in memory at once, so it is no help to a model of two; to a GPU they stream through
      // small buffers.
      if (
        !(error instanceof MemoryBudgetError) ||
        error.tier !== 'cpu' ||
        weightShare === 1 ||
        (!plan.gpu && decoder.layers <= WEIGHT_BUFFERS)
      )
        throw error;
      tooSmall = error;
    }
  }
  const { fixedBytes, layerBytes } = plan.streaming;
  return smallerRefusal(tooSmall, () => ({
    plan,
    ...planStreaming({
      ...demand,
      fixedBytes,
      layerBytes,
      buffers: plan.gpu ? 0 : WEIGHT_BUFFERS,
      usualPages,
      residentShare: weightShare,
    }),
  }));
}

/** Makes a plan; where it fails as another one did before, the smaller budget of the two is the one to name. */
function smallerRefusal<T>(before: MemoryBudgetError | undefined, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw before && error instanceof MemoryBudgetError && error.neededBytes > before.neededBytes ? before : error;
  }
}

/** A runtime that is about to be opened: everything but how many pages it has, and whether its weights stream. */
class RuntimePlan {
  /** What the runtime takes with one page of cache and all weights in memory. */
  readonly onePage: RuntimeBytes;
  /** Scratch, hidden states and buffers. */
  readonly workingBytes: number;
  /** What is on the GPU, if there is one. */
  readonly gpu: GpuTier | undefined;
  /** The model, its weights compressed as was settled. */
  readonly source: ModelSource;
  private readonly spill: SpillPlan;

  /** @throws MemoryBudgetError where the GPU's memory does not hold the block */
  constructor(
    private readonly addon: Addon,
    model: ModelSource,
    readonly settings: Settings,
    readonly planned: PlannedEngine,
  ) {
    const source = (this.source = { ...model, bindings: compressBindings(model.bindings, settings.compressWeights) });
    const { decoder } = source;
    const { gpu, slots, rowsPerSlot, tokensPerSquare } = settings;
    const rows = slots * rowsPerSlot;
    const spill = (this.spill = planSpill({
      slots,
      rowsPerSlot,
      tokensPerSquare,
      pageTokens: PAGE_TOKENS,
      usualRowTokens: Math.min(settings.rowTokens, decoder.contextTokens),
      cacheShare: settings.cacheOnDisk,
      gpuCacheShare: gpu?.cacheShare,
      activationShare: settings.activationsOnDisk,
      activationsMove: gpu?.activationsMove,
      tokenBytes: decoder.hiddenSize * 4,
    }));
    const gpuPagesOf = (tokens: number, gpuShare: number): number => this.rowPages(tokens, gpuShare).gpu;
    const share = gpu?.cacheShare ?? 1;
    // Tables of as many pages as a square's rows can have: with a GPU room for them is part of the scratch memory.
    const tablePages = this.mostRows * Math.ceil(decoder.contextTokens / PAGE_TOKENS);
    this.gpu =
      gpu &&
      gpuTier({
        settings: gpu,
        measure: (on) => nativeCall(() => addon.measureRuntime({ ...this.options(tablePages), gpu: on })),
        tablePages,
        activationBuffers: spill.activations?.buffers ?? slots,
        rows,
        rowPages: gpuPagesOf(settings.rowTokens, 1),
        leastPages: gpuPagesOf(LEAST_ROW_TOKENS, share),
        mostPages: Math.max(gpuPagesOf(decoder.contextTokens, share), gpuPagesOf(USUAL_ROW_TOKENS, share) * rows),
      });
    this.onePage = nativeCall(() => addon.measureRuntime(this.options(1)));
    const { staging, activations } = this.onePage;
    const { scratch } = this.gpu ? nativeCall(() => addon.measureRuntime(this.options(tablePages))) : this.onePage;
    const { activations: spilled } = spill;
    const stores = spilled ? slots * spilled.residentTokens * decoder.hiddenSize * 4 : 0;
    const pinned = this.gpu?.options.pinnedBytes ?? 0;
    this.workingBytes =
      scratch + staging + activations * (spilled?.buffers ?? slots) + stores + pinned + transitBytes(source, settings);
  }

  /** Pages of a row of so many tokens, of which the model may have fewer, on each tier. */
  rowPages(tokens: number, gpuShare = this.gpu?.cacheShare): ReturnType<typeof placePages> {
    const {
      settings: { cacheOnDisk },
      spill: { pagesPerRow },
      source: { decoder },
    } = this;
    return placePages(Math.min(tokens, decoder.contextTokens), {
      pageTokens: PAGE_TOKENS,
      diskShare: cacheOnDisk,
      mostDiskPages: pagesPerRow,
      gpuShare,
    });
  }

  /** Weights on all tiers. */
  get modelBytes(): number {
    return this.onePage.weights + (this.onePage.gpu?.weights ?? 0);
  }

  /**
   * The most that its store takes: a header names every weight and has a checksum of every few MiB, and blocks start at
   * multiples of 4096.
   */
  get mostStoreBytes(): number {
    const { bindings, decoder } = this.source;
    return this.modelBytes + Math.ceil(this.modelBytes / 2 ** 20) + 64 * bindings.length + 4096 * (decoder.layers + 2);
  }

  /** What is taken however much of the layers streams, and what of each layer can. Known before there is a store. */
  get streaming(): { readonly fixedBytes: number; readonly layerBytes: readonly number[] } {
    // On a GPU are norms, biases, and what is no layer's; and the buffers.
    if (this.gpu) return { fixedBytes: this.workingBytes, layerBytes: this.onePage.streamed };
    const { weights, streamed } = nativeCall(() =>
      this.addon.measureRuntime(
        this.options(1, { store: 'to be made', fingerprint: '', residentLayerBytes: 0, buffers: WEIGHT_BUFFERS }),
      ),
    );
    return { fixedBytes: this.workingBytes + weights, layerBytes: streamed };
  }

  /** @throws MemoryBudgetError if what is to lie on disk may not take that much */
  checkDisk(weightBytes: number): void {
    const { diskBytes } = this.settings;
    const needed = weightBytes + this.onePage.spill;
    if (needed > diskBytes)
      throw new MemoryBudgetError(
        'disk',
        diskBytes,
        needed,
        weightBytes > 0 ? 'the repacked model with what spills' : 'what spills',
      );
  }

  open(
    pages: number,
    reservedBytes: number,
    store?: WeightStore,
    residentLayerBytes = 0,
  ): { runtime: NativeRuntime; settled: SettledOptions } {
    this.checkDisk(store?.fileBytes ?? 0);
    const weights = store && {
      store: store.path,
      fingerprint: store.fingerprint,
      residentLayerBytes,
      buffers: WEIGHT_BUFFERS,
    };
    const options = this.options(pages, weights);
    const runtime = nativeCall(() => this.addon.openRuntime(options));
    const { settings, spill, source, onePage } = this;
    const { layers, part } = source.decoder;
    const { bytes } = runtime;
    const evenly = Math.round((bytes.weights + (bytes.gpu?.weights ?? 0)) / layers);
    return {
      runtime,
      settled: {
        ...settings,
        planned: this.planned,
        grid: {
          layers,
          ...(part && { part: { first: part.firstLayer, of: part.modelLayers } }),
          slots: settings.slots,
          rowsPerSlot: this.mostRows,
          tokensPerSquare: settings.tokensPerSquare,
        },
        cache: options.cache,
        diskCache: { pages: spill.pages, share: settings.cacheOnDisk, mostPerRow: spill.pagesPerRow },
        gpuTier: this.gpu,
        cacheBuffers: spill.buffers,
        activations: spill.activations,
        pageBytes: onePage.cache,
        pageSlotBytes: onePage.pageSlot,
        reservedBytes,
        storeBytes: store?.fileBytes ?? 0,
        storePath: store?.path,
        spillBytes: onePage.spill,
        weightBuffers: this.gpu ? this.gpu.options.buffers : (weights?.buffers ?? 0),
        layerBytes: store?.layerBytes ?? new Array<number>(layers).fill(evenly),
        streamedBytes: bytes.streamed,
        fromDisk: bytes.gpu ? bytes.gpu.streamedFromStore : bytes.streamed,
      },
    };
  }

  /**
   * Rows that a batch may come to have. Staging buffers are made for as many as were planned, and so are plans of other
   * people.
   */
  private get mostRows(): number {
    const { rowsPerSlot, tokensPerSquare } = this.settings;
    const grows = this.planned.plan.origin === 'auto' && this.spill.buffers === 0;
    return grows ? Math.max(rowsPerSlot, Math.min(GROWTH * rowsPerSlot, Math.floor(tokensPerSquare / 2))) : rowsPerSlot;
  }

  private options(pages: number, weights?: RuntimeOptions['weights']): RuntimeOptions {
    const { decoder, bindings, files } = this.source;
    const { precision, threads, instructionSet, tokensPerSquare, disk, compressCache, sparseAttention } = this.settings;
    const { pages: diskPages, buffers, bufferPages, activations } = this.spill;
    const plainCache = precision === 'float32' ? 'f32' : 'f16';
    const spills = diskPages > 0 || activations !== undefined;
    return {
      decoder,
      bindings,
      files,
      precision,
      threads,
      instructionSet,
      cache: {
        type: compressCache === 'none' ? plainCache : COMPRESSED_CACHE[compressCache],
        pageTokens: PAGE_TOKENS,
        pages,
      },
      ...(sparseAttention < 1 && { sparseAttention }),
      limits: { tokensPerSquare, rowsPerSquare: this.mostRows },
      ...(this.gpu && { gpu: this.gpu.options }),
      ...(weights && { weights }),
      ...(spills && {
        spill: { folder: disk, pages: diskPages, buffers, bufferPages, hiddenBytes: activations?.bytes ?? 0 },
      }),
    };
  }
}

/** Hidden states on their way from and to the engines of other layers: at most a square of each slot, each way. */
function transitBytes(
  { decoder: { part, layers, hiddenSize } }: ModelSource,
  { slots, tokensPerSquare }: Settings,
): number {
  if (!part) return 0;
  const ways = Number(part.firstLayer > 0) + Number(part.firstLayer + layers < part.modelLayers);
  return ways * slots * tokensPerSquare * hiddenSize * 4;
}
