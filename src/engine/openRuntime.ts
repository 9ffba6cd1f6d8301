import { join } from 'node:path';
import type { Addon, InstructionSet, MachineFacts, NativeRuntime, RuntimeOptions } from '../bindings/Addon.js';
import { loadAddon } from '../bindings/loadAddon.js';
import { nativeCall } from '../bindings/nativeCall.js';
import type { EngineOptions } from '../EngineOptions.js';
import { MemoryBudgetError } from '../errors/MemoryBudgetError.js';
import { UsageError } from '../errors/UsageError.js';
import { compressBindings, WEIGHT_COMPRESSIONS, type WeightCompression } from '../model/compressBindings.js';
import type { ModelSource } from '../model/ModelSource.js';
import { userCacheFolder } from '../model/pull/cacheFolder.js';
import { parseBytes } from '../units.js';
import { HEAP_MARGIN_BYTES, planMemory } from './memory/planMemory.js';
import { planStreaming } from './memory/planStreaming.js';
import { openWeightStore, type WeightStore } from './openWeightStore.js';
import type { Grid } from './schedules/Square.js';

/** What was decided for an engine: the grid of its runs, its KV cache, and where its weights are. */
export interface SettledOptions {
  readonly grid: Grid;
  readonly cache: RuntimeOptions['cache'];
  /** Bytes of one page, all layers together. */
  readonly pageBytes: number;
  readonly cpuMemoryBytes: number;
  /** What the runtime reserved. */
  readonly reservedBytes: number;
  /** Layers' weights that are in memory at once while they stream; 0 where nothing does. */
  readonly weightBuffers: number;
  /** Bytes of each layer, and how many of them stream from disk every pass. */
  readonly layerBytes: readonly number[];
  readonly streamedBytes: readonly number[];
  readonly threads: number;
  readonly precision: 'default' | 'float32';
  readonly compressWeights: WeightCompression;
}

const PAGE_TOKENS = 32;
const BATCH_SIZE = 64;
const TOKENS_PER_SQUARE = 512;
/** Contexts beyond this are not provided for in every row at once; longer rows are admitted as pages come free. */
const USUAL_ROW_TOKENS = 4096;
/** A budget must hold at least a row of this many tokens. */
const LEAST_ROW_TOKENS = 512;
/** One layer is computed while the next one is read. */
const WEIGHT_BUFFERS = 2;
/** While weights stream, a row's cache is provided for up to this many tokens; memory beyond it keeps weights. */
const STREAMED_ROW_TOKENS = 512;
const INSTRUCTION_SETS: readonly InstructionSet[] = ['scalar', 'avx2', 'avx512'];

/**
 * Settles every option, plans the memory, and opens the native runtime; its weights are not loaded yet. A model that does not fit into
 * memory is repacked, once, and its layers stream from disk.
 * @throws UsageError, MemoryBudgetError, ModelFileError
 */
export async function openRuntime(model: ModelSource, options: EngineOptions): Promise<{ readonly runtime: NativeRuntime; readonly settled: SettledOptions }> {
  const addon = loadAddon();
  const machine = nativeCall(() => addon.machine());
  if (options.device !== undefined && !['auto', 'cpu'].includes(options.device)) {
    throw new UsageError(`device: found ${JSON.stringify(options.device)}, this build has: auto, cpu`);
  }
  const precision = options.precision ?? 'default';
  if (!['default', 'float32'].includes(precision)) throw new UsageError(`precision: found ${JSON.stringify(precision)}, expected default or float32`);
  const compressWeights = options.compressWeights ?? 'none';
  if (!WEIGHT_COMPRESSIONS.includes(compressWeights)) {
    throw new UsageError(`compressWeights: found ${JSON.stringify(compressWeights)}, expected one of ${WEIGHT_COMPRESSIONS.join(', ')}`);
  }
  const source: ModelSource = { ...model, bindings: compressBindings(model.bindings, compressWeights) };
  const threads = whole('threads', options.threads, machine.processors, 1024);
  const rowsPerSlot = whole('batchSize', options.batchSize, BATCH_SIZE, 4096);
  const slots = whole('batches', options.batches, 1, 256);
  const tokensPerSquare = whole('tokensPerSquare', options.tokensPerSquare, Math.max(TOKENS_PER_SQUARE, rowsPerSlot), 65_536);
  const instructionSet = instructionSetOf(options, machine);
  const { decoder } = source;
  const runtimeOptions = (pages: number, weights?: RuntimeOptions['weights']): RuntimeOptions => ({
    decoder,
    bindings: source.bindings,
    files: source.files,
    precision,
    threads,
    instructionSet,
    cache: { type: precision === 'float32' ? 'f32' : 'f16', pageTokens: PAGE_TOKENS, pages },
    limits: { tokensPerSquare, rowsPerSquare: rowsPerSlot },
    ...(weights && { weights }),
  });
  const onePage = nativeCall(() => addon.measureRuntime(runtimeOptions(1)));
  const pagesOf = (tokens: number): number => Math.ceil(Math.min(tokens, decoder.contextTokens) / PAGE_TOKENS);
  const capBytes = options.cpuMemory === undefined ? freeMemory(machine) : parseBytes(options.cpuMemory, 'cpuMemory');
  const demand = { capBytes, residentBytes: process.memoryUsage.rss(), leastPages: pagesOf(LEAST_ROW_TOKENS) };

  const settle = (pages: number, reservedBytes: number, store?: WeightStore, residentLayerBytes = 0): { runtime: NativeRuntime; settled: SettledOptions } => {
    const weights = store && { store: store.path, fingerprint: store.fingerprint, residentLayerBytes, buffers: WEIGHT_BUFFERS };
    const settledRuntime = runtimeOptions(pages, weights);
    const runtime = nativeCall(() => addon.openRuntime(settledRuntime));
    const { streamed } = runtime.bytes;
    const evenly = Math.round(runtime.bytes.weights / decoder.layers);
    return {
      runtime,
      settled: {
        grid: { layers: decoder.layers, slots, rowsPerSlot, tokensPerSquare },
        cache: settledRuntime.cache,
        pageBytes: onePage.cache,
        cpuMemoryBytes: capBytes,
        reservedBytes,
        weightBuffers: weights?.buffers ?? 0,
        layerBytes: store?.layerBytes ?? new Array<number>(decoder.layers).fill(evenly),
        streamedBytes: streamed,
        threads,
        precision,
        compressWeights,
      },
    };
  };

  const share = residentShare(options);
  const mostPages = Math.max(pagesOf(decoder.contextTokens), pagesOf(USUAL_ROW_TOKENS) * slots * rowsPerSlot);
  let tooSmall: MemoryBudgetError | undefined;
  if (share === undefined || share === 1) {
    try {
      const { pages, reservedBytes } = planMemory({ ...demand, onePage, slots, mostPages });
      return settle(pages, reservedBytes);
    } catch (error) {
      // Streaming keeps two layers in memory at once, so it is no help to a model of two.
      if (!(error instanceof MemoryBudgetError) || share === 1 || decoder.layers <= WEIGHT_BUFFERS) throw error;
      tooSmall = error;
    }
  }
  const workingBytes = onePage.scratch + onePage.activations * slots;
  if (tooSmall && demand.residentBytes + HEAP_MARGIN_BYTES + workingBytes > capBytes) throw tooSmall;
  const store = await storeOf(source, options, addon, onePage.weights, threads);
  try {
    const plan = planStreaming({
      ...demand,
      residentBytes: process.memoryUsage.rss(),
      fixedBytes: workingBytes + store.globalBytes,
      pageBytes: onePage.cache,
      layerBytes: store.layerBytes,
      leastLayerBytes: Math.max(...store.vectorBytes),
      buffers: WEIGHT_BUFFERS,
      usualPages: pagesOf(STREAMED_ROW_TOKENS) * slots * rowsPerSlot,
      residentShare: share,
    });
    return settle(plan.pages, plan.reservedBytes, store, plan.residentLayerBytes);
  } catch (error) {
    // Both ways fail: the smaller budget of the two is the one to name.
    throw tooSmall && error instanceof MemoryBudgetError && error.neededBytes > tooSmall.neededBytes ? tooSmall : error;
  }
}

/** The repacked file of the model, within the space that it may take. */
function storeOf(source: ModelSource, options: EngineOptions, addon: Addon, weightBytes: number, threads: number): Promise<WeightStore> {
  const diskBytes = options.diskMemory === undefined ? Infinity : parseBytes(options.diskMemory, 'diskMemory');
  if (weightBytes > diskBytes) throw new MemoryBudgetError('disk', diskBytes, weightBytes, 'the repacked model');
  return openWeightStore(addon, source, options.disk ?? join(userCacheFolder(), 'repacked'), threads, (bytes) => options.onRepack?.(bytes, weightBytes));
}

function residentShare({ weights }: EngineOptions): number | undefined {
  if (weights === undefined) return undefined;
  const { cpu, disk } = weights;
  if (!(cpu >= 0 && disk >= 0 && Math.abs(cpu + disk - 1) < 1e-6)) {
    throw new UsageError(`weights: found ${JSON.stringify(weights)}, expected shares cpu and disk that sum to 1`);
  }
  return cpu;
}

function whole(name: string, value: number | undefined, fallback: number, most: number): number {
  const settled = value ?? fallback;
  if (!Number.isSafeInteger(settled) || settled < 1 || settled > most) {
    throw new UsageError(`${name}: found ${String(value)}, expected a whole number from 1 to ${most}`);
  }
  return settled;
}

function instructionSetOf({ instructionSet }: EngineOptions, { instructionSets }: MachineFacts): InstructionSet {
  const best = instructionSets.at(-1) ?? 'scalar';
  if (instructionSet === undefined) return best;
  if (!INSTRUCTION_SETS.includes(instructionSet) || !instructionSets.includes(instructionSet)) {
    throw new UsageError(`instructionSet: found ${JSON.stringify(instructionSet)}, this machine has: ${instructionSets.join(', ')}`);
  }
  return instructionSet;
}

/** What the machine has free, less a margin for everybody else, plus what this process holds already. */
function freeMemory({ availableBytes }: MachineFacts): number {
  return Math.floor(availableBytes * 0.9) + process.memoryUsage.rss();
}
