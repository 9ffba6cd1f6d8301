import type { Addon, MachineFacts, RuntimeBytes, RuntimeOptions } from '../../bindings/Addon.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { compressBindings } from '../../model/compressBindings.js';
import { hiddenBytes, isEncoder } from '../../model/DecoderSpec.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { gapWorthReading } from '../../plan/model/transferRates.js';
import { PAGE_TOKENS, ringTokenBytes } from '../../plan/reserves.js';
import { SMALLER_SQUARES } from '../../plan/search/choosePolicy.js';
import { heapBytes } from '../execution/HeapLimit.js';
import type { Grid } from '../grid/Square.js';
import { groupRules, groupsOf, type CacheGroups } from '../memory/cacheGroups.js';
import type { PagePlacement } from '../memory/PagePlacement.js';
import { longestRow, mostComing, pagesOfRows, placePages, type CacheRules } from '../memory/placePages.js';
import { OPTION_TABLE } from './engineOptions.js';
import {
  encoderBatches,
  encoderPages,
  encoderSquares,
  leastEncoderPages,
  squareForEncoder,
  USUAL_SQUARE,
} from './encoderOptions.js';
import { cacheOptions } from './cacheOptions.js';
import {
  attendedShare,
  CACHE_BUFFERS,
  checkOnGpu,
  fetches,
  gpuTier,
  hostAttends,
  morePinnedBytes,
  sharedAttention,
  type BufferPages,
  type GpuTier,
} from './gpuMemory.js';
import { firstFit, heapLimitBytes, planResident, planStreaming, processBytes, type HostPlan } from './hostMemory.js';
import type { Plan } from './planEngine.js';
import { planSpill, type SpillPlan } from './planSpill.js';
import { capOf, settle, type Block, type Settings } from './settings.js';
import { smallerBlocks, smallerPlan } from './smallerBlocks.js';
import type { RequestedOptions, RowsToCome } from './validateOptions.js';

/** The parts of each tier that an engine takes, and for what: all that is decided before anything is opened. */
export interface MemoryLayout {
  /** Its block may be smaller than the one that was planned first. */
  readonly plan: Plan;
  readonly settings: Settings;
  /** Cap on the process's resident memory. */
  readonly capBytes: number;
  /** The model, its weights compressed as was settled. */
  readonly source: ModelSource;
  /** Places for rows: in a batch there may be more than are planned, for the case that rows turn out shorter. */
  readonly grid: Grid;
  readonly host: HostPlan;
  /** The part of the cap that is left for the JavaScript heap. */
  readonly heapLimitBytes: number;
  /** The part of the engine on the GPU; undefined where the processor computes. */
  readonly gpu: GpuTier | undefined;
  readonly spill: SpillPlan;
  /** The part of a row the layers keep. */
  readonly groups: CacheGroups;
  /** The memory that the runtime takes with one page of cache and all weights in memory. */
  readonly onePage: RuntimeBytes;
  /** The options that the runtime is opened with, but for the store of weights that stream. */
  readonly runtime: RuntimeOptions;
}

/** The layout known once a block has been found. */
type BlockLayout = Omit<MemoryLayout, 'heapLimitBytes'>;

/** Contexts beyond this are not provided for in every row at once; longer rows are admitted as pages come free. */
const PROVIDED_ROW_TOKENS = 4096;
/** Where a cache in memory is pinned for a GPU: full blocks of rows as they are expected. */
const PINNED_BLOCKS = 2;
/** A budget must hold at least a row of this many tokens. */
const MIN_ROW_TOKENS = 512;
/** One layer is computed while the next one is read. */
export const WEIGHT_BUFFERS = 2;
const COMPRESSED_CACHE = { '8bit': 'q8', '4bit': 'q4' } as const;

/**
 * The third step of opening an engine: divides every tier between weights, KV cache and hidden states, for the block
 * that was planned, or the first smaller one that fits. Measures by the native runtime, and allocates nothing.
 *
 * @throws MemoryBudgetError with the smallest cap that works for any block: see `hostMemory`
 */
export function layOutMemory(
  addon: Addon,
  model: ModelSource,
  { options: given }: RequestedOptions,
  plan: Plan,
  machine: MachineFacts,
  rows: RowsToCome,
): MemoryLayout {
  const found = foundBytes(given.memoryBudget?.reservedHereBytes ?? 0);
  const held = processBytes(found.residentBytes, model.decoder.vocabularySize);
  const blocks = smallerBlocks(plan.options, given, (given.policy ?? 'auto') === 'auto' && !isEncoder(model.decoder), [
    ...encoderSquares(model),
    ...SMALLER_SQUARES,
  ]);
  const wanted = Math.min(longestRowToCome(rows), model.decoder.contextTokens);
  const inBlock = (options: EngineOptions, smaller = options !== plan.options): BlockLayout => {
    const settings = settle(cacheOptions(squareForEncoder(options, model), given, model), machine);
    const { weightShare } = settings.memory;
    const planned = smaller ? smallerPlan(plan, options, settings.block) : { ...plan, options };
    const block = new BlockMemory(addon, model, settings, rows);
    const host = {
      capBytes: capOf(settings.memory, machine),
      ...held,
      minPages: Math.max(
        block.rowPages(MIN_ROW_TOKENS).pages.memory,
        given.batches === undefined ? leastEncoderPages(model, settings.block) : 0,
      ),
      pageBytes: block.onePage.cache,
    };
    const placed = (place: 'memory' | 'streaming'): BlockLayout =>
      block.layout(
        planned,
        host.capBytes,
        place === 'memory'
          ? planResident({ ...host, ...block.residentDemand })
          : planStreaming({
              ...host,
              ...block.streamingDemand,
              longRowPages: block.rowPages(wanted).pages.memory,
              residentShare: weightShare,
              shareYields: given.weights === undefined,
              morePinnedBytes: block.gpu ? morePinnedBytes(host.capBytes) : 0,
            }),
      );
    return firstFit(placesOfWeights(planned, weightShare, block), placed, wanted, longestRowOf);
  };
  const alone = firstFit(blocks, (options) => inBlock(options), wanted, longestRowOf);
  const { options, report } = alone.plan;
  const layout = firstFit(
    alone.host.residentLayerBytes === undefined ? [1] : encoderBatches(model, given, alone.settings.block),
    (batches) => (batches === 1 ? alone : inBlock({ ...options, batches }, report.smallerBlock !== undefined)),
    longestRowOf(alone),
    longestRowOf,
  );
  return { ...layout, heapLimitBytes: heapLimitBytes(layout.capBytes, layout.host, found) };
}

/**
 * Measures what the process holds, and of that the JavaScript heap.
 * @param others what other engines have reserved, whose cap is counted apart, and some of which may not be resident yet
 */
function foundBytes(others: number): { readonly residentBytes: number; readonly heapBytes: number } {
  const residentBytes = process.memoryUsage.rss();
  const heap = heapBytes();
  return { residentBytes: others > 0 ? Math.max(residentBytes - others, heap) : residentBytes, heapBytes: heap };
}

/**
 * Tokens of the longest row that layouts are chosen for. Where nobody has seen all rows, as long a one as is provided
 * for in any case: of longer ones a layout with faster weights may hold fewer.
 */
function longestRowToCome({ expected, rowTokens = OPTION_TABLE.rowTokens.default }: RowsToCome): number {
  return Math.ceil(expected?.longestRowTokens ?? Math.max(PROVIDED_ROW_TOKENS, rowTokens));
}

/** Tokens of the longest row that a layout holds. */
export function longestRowOf({ host, gpu, spill, settings, groups, grid }: BlockLayout): number {
  const inPages = longestRow(
    { gpu: gpu?.options.pages ?? 0, memory: host.pages, disk: spill.pages },
    {
      pageTokens: PAGE_TOKENS,
      gpuShare: gpu?.cacheShare,
      diskShare: settings.memory.cacheOnDisk,
      mostDiskPages: spill.pagesPerRow,
      ...groupRules(groups, grid),
      ...(gpu && fetches(gpu) && { mostFetchedPages: gpu.mostFetched, attendedShare: sharedAttention(gpu) }),
    },
  );
  return grid.wholeRows === undefined ? inPages : Math.min(inPages, grid.tokensPerSquare);
}

/** Where the weights may be that are on no GPU, what is better first. */
function placesOfWeights(
  { streams }: Plan,
  weightShare: number | undefined,
  { gpu, source: { decoder } }: BlockMemory,
): readonly ('memory' | 'streaming')[] {
  if (streams || (weightShare !== undefined && weightShare < 1)) return ['streaming'];
  // Streaming keeps two layers in memory at once, so it is no help to a model of two; to a GPU they stream through
  // small buffers.
  const helps = gpu !== undefined || decoder.layers > WEIGHT_BUFFERS;
  return weightShare === undefined && helps ? ['memory', 'streaming'] : ['memory'];
}

/** The memory that an engine takes with one block, as the native runtime measures it. */
class BlockMemory {
  readonly onePage: RuntimeBytes;
  readonly gpu: GpuTier | undefined;
  readonly source: ModelSource;
  /** Tokens of a row that is provided for in any case. */
  private readonly rowTokens: number;
  private readonly spill: SpillPlan;
  private readonly groups: CacheGroups;
  /** Scratch, hidden states and buffers. */
  private readonly workingBytes: number;

  /** @throws MemoryBudgetError where the GPU's memory does not hold the block */
  constructor(
    private readonly addon: Addon,
    model: ModelSource,
    private readonly settings: Settings,
    private readonly rowsToCome: RowsToCome,
  ) {
    const { numerics, block, memory } = settings;
    const { gpu } = memory;
    const { slots, rowsPerSlot, tokensPerSquare } = block;
    this.source = { ...model, bindings: compressBindings(model.bindings, numerics.compressWeights) };
    const { decoder } = this.source;
    this.rowTokens = rowsToCome.rowTokens ?? OPTION_TABLE.rowTokens.default;
    if (memory.gpu) checkOnGpu(decoder);
    this.groups = groupsOf(decoder, memory.gpu !== undefined, longestRowToCome(rowsToCome));
    this.spill = planSpill({
      slots,
      rowsPerSlot,
      tokensPerSquare,
      pageTokens: PAGE_TOKENS,
      rowTokens: Math.min(this.rowTokens, decoder.contextTokens),
      cacheShare: memory.cacheOnDisk,
      gpuCacheShare: gpu?.cacheShare,
      cacheBuffers: gpu && gpu.hostShare < 1 ? CACHE_BUFFERS : undefined,
      activationShare: memory.activationsOnDisk,
      gpuActivationShare: gpu?.activationShare,
      tokenBytes: hiddenBytes(decoder),
      groups: groupRules(this.groups, block),
    });
    const { activations: spilled } = this.spill;
    // Tables of as many pages as a square's rows can have: with a GPU room for them is part of the scratch memory.
    const tablePages = rowsPerSlot * Math.ceil(decoder.contextTokens / PAGE_TOKENS);
    this.gpu = gpu && this.gpuTier(gpu, tablePages);
    this.onePage = this.measure(1);
    const { staging, held, activations } = this.onePage;
    const { scratch } = this.gpu ? this.measure(tablePages) : this.onePage;
    const moving = spilled ? slots - spilled.stayingSlots : 0;
    const stores = spilled ? moving * spilled.residentTokens * hiddenBytes(decoder) : 0;
    const pinned = this.gpu?.options.pinnedBytes ?? 0;
    this.workingBytes =
      scratch +
      staging +
      held +
      this.onePage.state * (this.states ?? 0) +
      activations * (slots - moving + (spilled?.buffers ?? 0)) +
      stores +
      pinned +
      transitBytes(decoder, block);
  }

  /** Rows of which layers can remember a state at once; undefined where none does. */
  private get states(): number | undefined {
    const { slots, rowsPerSlot } = this.settings.block;
    return this.source.decoder.recurrent && slots * rowsPerSlot;
  }

  /** Pages of a row of so many tokens, of which the model may have fewer, on each tier. */
  rowPages(tokens: number, gpuShare = this.gpu?.cacheShare): PagePlacement {
    return placePages(Math.min(tokens, this.source.decoder.contextTokens), this.rules(gpuShare));
  }

  private rules(gpuShare: number | undefined): CacheRules {
    return {
      pageTokens: PAGE_TOKENS,
      diskShare: this.settings.memory.cacheOnDisk,
      mostDiskPages: this.spill.pagesPerRow,
      gpuShare,
      ...groupRules(this.groups, this.settings.block),
    };
  }

  /** With all weights in memory. */
  get residentDemand(): Pick<Parameters<typeof planResident>[0], 'weightBytes' | 'workingBytes' | 'maxPages'> {
    const { slots, rowsPerSlot } = this.settings.block;
    const maxPages = Math.max(
      this.rowPages(this.source.decoder.contextTokens).pages.memory,
      // Beside a GPU all of them are pinned, used or not.
      this.gpu
        ? PINNED_BLOCKS * this.blockPages
        : this.rowPages(PROVIDED_ROW_TOKENS).pages.memory * this.keptRows(slots * rowsPerSlot),
      this.blockPages,
    );
    return { weightBytes: this.onePage.weights, workingBytes: this.workingBytes, maxPages };
  }

  /** With layers that stream; known before there is a store. */
  get streamingDemand(): Pick<
    Parameters<typeof planStreaming>[0],
    'fixedBytes' | 'layerBytes' | 'buffers' | 'blockPages'
  > {
    const { blockPages, workingBytes } = this;
    // On a GPU are norms, biases, and what is no layer's; and the buffers.
    if (this.gpu) return { fixedBytes: workingBytes, layerBytes: this.onePage.streamed, buffers: 0, blockPages };
    const store = { store: 'to be made', fingerprint: '', residentLayerBytes: 0, buffers: WEIGHT_BUFFERS };
    const { weights, streamed } = this.measure(1, { weights: store });
    return { fixedBytes: workingBytes + weights, layerBytes: streamed, buffers: WEIGHT_BUFFERS, blockPages };
  }

  layout(plan: Plan, capBytes: number, host: HostPlan): BlockLayout {
    const { settings, source, spill, onePage } = this;
    const { layers, part, share, residual } = source.decoder;
    const { slots, rowsPerSlot, tokensPerSquare } = settings.block;
    const grid: Grid = {
      layers,
      ...(part && { part: { first: part.firstLayer, of: part.modelLayers } }),
      ...(share && {
        share: {
          index: share.index,
          of: share.of,
          sums: residual === 'parallel' ? 1 : 2,
          ...(share.attention && { attention: share.attention }),
        },
      }),
      slots,
      rowsPerSlot,
      tokensPerSquare,
      ...(isEncoder(source.decoder) && {
        wholeRows: Math.min(tokensPerSquare, plan.options.tokensPerSquare ?? USUAL_SQUARE),
      }),
    };
    const gpu = this.gpu && withMorePinned(this.gpu, host.morePinnedBytes ?? 0);
    const gapBytes = plan.request ? gapWorthReading(plan.request.hardware) : 0;
    const runtime = { ...this.options(host.pages, gapBytes), ...(gpu && { gpu: gpu.options }) };
    return { plan, settings, capBytes, source, grid, host, gpu, spill, groups: this.groups, onePage, runtime };
  }

  /** Pages of a full block of rows as they are expected, in memory. */
  private get blockPages(): number {
    const { block } = this.settings;
    const { expected } = this.rowsToCome;
    const tokens = Math.min(this.rowTokens, this.source.decoder.contextTokens);
    // Where the processor attends beside a GPU, or each engine keeps some rows, every row is provided for in full. The
    // page where a prefix ends stands beside those that begin as copies of it.
    const keepsAll = this.source.decoder.share?.attention === undefined;
    const sharing = keepsAll && (!this.gpu || !hostAttends(this.gpu));
    const sharedTokens = !sharing ? 0 : Math.min(expected?.sharedPrefixTokens ?? 0, tokens - 1);
    const rows = this.keptRows(Math.max(1, Math.min(block.slots * block.rowsPerSlot, expected?.rows ?? Infinity)));
    const { memory } = pagesOfRows(this.rowPages(this.rowTokens), rows, Math.floor(sharedTokens / PAGE_TOKENS));
    const longest = this.rowPages(block.tokensPerSquare).pages.memory;
    return Math.min(memory + (sharedTokens > 0 ? 1 : 0), encoderPages(this.source, block, longest));
  }

  /** Rows whose keys and values are kept here, of so many. */
  private keptRows(rows: number): number {
    const { share } = this.source.decoder;
    return Math.ceil(rows / (share?.attention ? share.of : 1));
  }

  private gpuTier(gpu: NonNullable<Settings['memory']['gpu']>, tablePages: number): GpuTier {
    const { slots, rowsPerSlot } = this.settings.block;
    const { cacheShare: share = 1 } = gpu;
    const pagesOf = (tokens: number, gpuShare: number): number => this.rowPages(tokens, gpuShare).pages.gpu;
    const rows = slots * rowsPerSlot;
    const { contextTokens } = this.source.decoder;
    const { activations: hidden } = this.spill;
    return gpuTier({
      settings: gpu,
      measure: (on, pages) => this.measure(pages, { gpu: on }),
      tablePages,
      activationBuffers: hidden ? hidden.stayingSlots + hidden.buffers : slots,
      rows,
      rowPages: pagesOf(this.rowTokens, 1),
      minPages: pagesOf(MIN_ROW_TOKENS, share),
      seenPages: this.seenPages,
      bufferPages: (gpuShare) =>
        this.bufferPages({ ...this.rules(gpuShare), attendedShare: attendedShare(gpuShare, gpu.hostShare) }),
      maxPages: Math.max(
        pagesOf(contextTokens, share),
        pagesOf(Math.max(PROVIDED_ROW_TOKENS, this.rowTokens), share) * rows,
      ),
    });
  }

  /** Most pages of one row that a layer sees for a square: of all layers, as engines of the others count them, too. */
  private get seenPages(): number {
    const windows = this.source.decoder.layerSpecs.map(({ window }) => (window === 0 ? Infinity : window));
    // As many positions as that begin anywhere in a page.
    const positions = Math.max(...windows) + this.settings.block.tokensPerSquare - 1;
    return Math.ceil((positions - 1) / PAGE_TOKENS) + 1;
  }

  private bufferPages(rules: CacheRules): BufferPages {
    const { contextTokens, part } = this.source.decoder;
    const fetched = (tokens: number): number =>
      Math.min(mostComing(Math.min(tokens, contextTokens), rules), this.seenPages);
    const longest = fetched(contextTokens);
    if (longest === 0) return { least: 0, most: 0 };
    // A page of each row at least: of a share that leaves none of a usual row's elsewhere a longer one may have some.
    const { rowsPerSlot } = this.settings.block;
    const least = Math.max(rowsPerSlot * Math.max(1, fetched(this.rowTokens)), fetched(PROVIDED_ROW_TOKENS));
    // Engines of other layers have to hold the same rows, and know nothing of this one's memory.
    return { least, most: part ? least : Math.max(least, longest) };
  }

  private measure(pages: number, more: Pick<RuntimeOptions, 'gpu' | 'weights'> = {}): RuntimeBytes {
    return nativeCall(() => this.addon.measureRuntime({ ...this.options(pages), ...more }));
  }

  /** @param gapBytes see `gapWorthReading` */
  private options(pages: number, gapBytes = 0): RuntimeOptions {
    const { decoder, bindings, files } = this.source;
    const {
      numerics: { precision, instructionSet, compressCache, compressWeights, sparseAttention },
      block: { threads, tokensPerSquare, rowsPerSlot },
      memory: { disk },
    } = this.settings;
    const { pages: diskPages, buffers, bufferPages, activations } = this.spill;
    const plainCache = precision === 'float32' ? 'f32' : 'f16';
    const spills = diskPages > 0 || activations !== undefined;
    return {
      decoder,
      bindings,
      files,
      // What is left of an encoder's matrices as it is.
      precision:
        precision === 'default' && compressWeights === '8bit' && bindings.some((each) => each.notEightBits)
          ? 'words'
          : precision,
      threads,
      instructionSet,
      cache: {
        type: compressCache === 'none' ? plainCache : COMPRESSED_CACHE[compressCache],
        pageTokens: PAGE_TOKENS,
        pages,
        ...(this.groups.laws.length > 1 && { groups: this.groups.groupOf }),
        ...(this.states !== undefined && { states: this.states }),
      },
      ...(sparseAttention < 1 && { sparseAttention }),
      limits: { tokensPerSquare, rowsPerSquare: rowsPerSlot },
      ...(this.gpu && { gpu: this.gpu.options }),
      ...(spills && {
        spill: {
          folder: disk,
          pages: diskPages,
          buffers,
          bufferPages,
          hiddenBytes: activations?.bytes ?? 0,
          ...(gapBytes > 0 && { gapBytes }),
        },
      }),
    };
  }
}

function withMorePinned(gpu: GpuTier, bytes: number): GpuTier {
  return { ...gpu, options: { ...gpu.options, pinnedBytes: gpu.options.pinnedBytes + bytes } };
}

/**
 * Hidden states on their way from and to the engines of other layers: at most a square of each slot, each way; or what
 * goes round the engines of all shares.
 */
function transitBytes(
  { part, share, layers, hiddenSize }: ModelSource['decoder'],
  { slots, tokensPerSquare }: Block,
): number {
  if (share) return slots * tokensPerSquare * ringTokenBytes(hiddenSize, share.attention);
  if (!part) return 0;
  const ways = Number(part.firstLayer > 0) + Number(part.firstLayer + layers < part.modelLayers);
  return ways * slots * tokensPerSquare * hiddenSize * 4;
}
