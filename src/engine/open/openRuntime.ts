import type { Addon, NativeRuntime, RuntimeBytes } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import type { ModelIdentity } from '../../model/identity/identifyModel.js';
import { readOfValues } from '../../plan/model/chosenValues.js';
import { checkProcessLimits, OTHER_THREADS, THREAD_BYTES, withProcessLimits } from '../../processLimits.js';
import { loadWeights } from '../store/loadWeights.js';
import { openWeightStore, type WeightStore } from '../store/openWeightStore.js';
import { withStoreRemedy } from '../store/storeRemedy.js';
import { WEIGHT_BUFFERS, type MemoryLayout } from './layOutMemory.js';
import type { Opened } from './Opened.js';

/** The options that opening takes. */
type OpeningOptions = Pick<EngineOptions, 'signal' | 'onWait' | 'onRepack' | 'onLoad'>;

/**
 * The last step of opening an engine: reserves the memory and loads the weights. A model that does not fit into memory
 * is repacked, once, and its layers stream from disk.
 *
 * @param identity of the model's files
 * @throws MemoryBudgetError where what lies on disk may not take that much; ProcessLimitError where the process may not
 * grow that much; ModelFileError; InterruptedError
 */
export async function openRuntime(
  addon: Addon,
  layout: MemoryLayout,
  identity: ModelIdentity,
  options: OpeningOptions,
): Promise<Opened> {
  const store =
    layout.host.residentLayerBytes === undefined ? undefined : await storeOf(addon, layout, identity, options);
  checkDisk(layout, store?.fileBytes ?? 0);
  const growth = layout.host.reservedBytes + (layout.settings.block.threads + OTHER_THREADS) * THREAD_BYTES;
  checkProcessLimits(growth);
  let runtime: NativeRuntime;
  try {
    runtime = reserve(addon, layout, store);
  } catch (error) {
    throw withProcessLimits(error, growth);
  }
  try {
    await loadWeights(runtime, store?.path, options);
  } catch (error) {
    await runtime.close();
    throw error;
  }
  return openedOf(layout, runtime, store);
}

/** Where layers stream from. */
async function storeOf(
  addon: Addon,
  layout: MemoryLayout,
  identity: ModelIdentity,
  { signal, onWait, onRepack }: OpeningOptions,
): Promise<WeightStore> {
  const {
    source,
    onePage,
    settings: { block, memory },
  } = layout;
  // On all tiers.
  const modelBytes = onePage.weights + (onePage.gpu?.weights ?? 0);
  // A header names every weight and has a checksum of every few MiB, and blocks start at multiples of 4096.
  const { bindings, decoder } = source;
  checkDisk(layout, modelBytes + Math.ceil(modelBytes / 2 ** 20) + 64 * bindings.length + 4096 * (decoder.layers + 2));
  return openWeightStore(addon, source, identity, {
    folder: memory.disk,
    threads: block.threads,
    signal,
    onWait,
    onProgress: (bytes) => onRepack?.(bytes, modelBytes),
  });
}

/** @throws MemoryBudgetError if what is to lie on disk may not take that much */
function checkDisk({ settings, onePage }: MemoryLayout, storeBytes: number): void {
  const { diskBytes } = settings.memory;
  const needed = storeBytes + onePage.spill;
  if (needed > diskBytes)
    throw new MemoryBudgetError(
      'disk',
      diskBytes,
      needed,
      storeBytes > 0 ? 'the repacked model with what spills' : 'what spills',
    );
}

function reserve(addon: Addon, { runtime, host, gpu }: MemoryLayout, store: WeightStore | undefined): NativeRuntime {
  if (!store) return nativeCall(() => addon.openRuntime(runtime));
  const { path, fingerprint, vectorBytes } = store;
  // Norms and biases are in memory in any case.
  const least = gpu ? 0 : Math.max(...vectorBytes);
  const residentLayerBytes = least + (host.residentLayerBytes ?? 0);
  try {
    return nativeCall(() =>
      addon.openRuntime({
        ...runtime,
        weights: { store: path, fingerprint, residentLayerBytes, buffers: WEIGHT_BUFFERS },
      }),
    );
  } catch (error) {
    throw withStoreRemedy(error, path);
  }
}

/** The part of pages on disk that is read where values come once keys have been chosen; else undefined. */
function choosingOf(
  { settings, runtime, groups, spill }: MemoryLayout,
  { pageSlot, pageKeys, spillBlock, held }: RuntimeBytes,
): Opened['cache']['choosing'] {
  if (pageKeys === 0) return undefined;
  const { heads, kvHeads } = runtime.decoder;
  const blockTokens = (spillBlock * kvHeads * runtime.cache.pageTokens) / (pageSlot - pageKeys);
  const reading = {
    keep: settings.numerics.sparseAttention,
    blockTokens,
    pageBlocks: (pageSlot - pageKeys) / spillBlock,
    held: Math.min(1, held / (groups.width * spill.pages * (pageSlot - pageKeys))),
    gapBlocks: Math.floor((runtime.spill?.gapBytes ?? 0) / spillBlock),
  };
  const known = new Map<number, number>();
  return {
    pageKeyBytes: pageKeys,
    shareOfValues: (tokens) => {
      const share = known.get(tokens) ?? readOfValues({ ...reading, choices: (tokens * heads) / kvHeads }).share;
      known.set(tokens, share);
      return share;
    },
  };
}

function openedOf(layout: MemoryLayout, runtime: NativeRuntime, store: WeightStore | undefined): Opened {
  const { plan, settings, capBytes, grid, host, gpu, spill, groups, onePage } = layout;
  const { bytes } = runtime;
  const evenly = Math.round((bytes.weights + (bytes.gpu?.weights ?? 0)) / grid.layers);
  const streamsThrough = store ? WEIGHT_BUFFERS : 0;
  return {
    runtime,
    plan,
    settings,
    grid,
    gpu,
    cache: {
      pages: host.pages,
      pageTokens: layout.runtime.cache.pageTokens,
      disk: { pages: spill.pages, share: settings.memory.cacheOnDisk, mostPerRow: spill.pagesPerRow },
      buffers: spill.buffers,
      pageBytes: onePage.cache,
      diskPageBytes: onePage.pageSlot,
      choosing: choosingOf(layout, bytes),
      groups,
      states: layout.runtime.cache.states,
    },
    weights: {
      buffers: gpu ? gpu.options.buffers : streamsThrough,
      storePath: store?.path,
      layerBytes: store?.layerBytes ?? new Array<number>(grid.layers).fill(evenly),
      streamedBytes: bytes.streamed,
      expertBytes: bytes.streamedExperts,
      fromDisk: bytes.gpu ? bytes.gpu.streamedFromStore : bytes.streamed,
    },
    activations: spill.activations,
    reserved: {
      capBytes,
      hostBytes: host.reservedBytes,
      heapLimitBytes: layout.heapLimitBytes,
      storeBytes: store?.fileBytes ?? 0,
      spillBytes: onePage.spill,
      ...(bytes.gpu && { unpinnedBytes: bytes.gpu.unpinned }),
    },
  };
}
