import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { Addon } from '../../bindings/Addon.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { UsageError } from '../../errors/UsageError.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import type { MemoryBudget } from '../../MemoryBudget.js';
import { compressBindings, int8Bindings } from '../../model/compressBindings.js';
import { createTokenizer } from '../../model/createTokenizer.js';
import { identifyModel, type ModelIdentity } from '../../model/identity/identifyModel.js';
import { evictKeys, parseKeyEviction } from '../../model/evictKeys.js';
import { modelStamps } from '../../model/identity/FileStamp.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { partOf } from '../../model/partOf.js';
import { readModel } from '../../model/readModel.js';
import { resolveModel } from '../../model/resolveModel.js';
import { shareOf } from '../../model/shareOf.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { checkHeapSize } from '../../processLimits.js';
import { repackedBytes } from '../store/openWeightStore.js';
import { encoderOptions } from './encoderOptions.js';
import { layOutMemory, type MemoryLayout } from './layOutMemory.js';
import { planEngine } from './planEngine.js';
import { resolveExpectedRows, validateOptions, type RequestedOptions } from './validateOptions.js';

/** An engine of which all is decided, and nothing is opened yet. */
export interface LaidOutEngine {
  readonly addon: Addon;
  readonly requested: RequestedOptions;
  /** The facts that the model's files give. */
  readonly source: ModelSource;
  /** Stamps of the model's files, before they were read. */
  readonly stamps: Awaited<ReturnType<typeof modelStamps>>;
  readonly identity: ModelIdentity;
  readonly tokenizer: Tokenizer;
  readonly layout: MemoryLayout;
}

/**
 * The steps of opening an engine that read no weights: options are checked, the model's files are read, the plan is
 * made, and memory is divided.
 *
 * @param laidOut is told of the layout before anything else runs: what it reserves of a shared budget nobody else gets
 * @throws what `Engine.open` throws, but for what becomes of weights
 */
export async function layOutEngine(
  options: EngineOptions,
  laidOut: (layout: MemoryLayout) => void = () => undefined,
): Promise<LaidOutEngine> {
  const given = await validateOptions(options);
  const { model, layers, tensorParallel, signal, onDownload, onIdentify } = given.options;
  const stopIfAborted = (): void => {
    if (signal?.aborted) throw new InterruptedError(signal.reason);
  };
  stopIfAborted();
  const path = await resolveModel(model, {
    ...(signal && { signal }),
    ...(onDownload && { onProgress: onDownload }),
  });
  stopIfAborted();
  const stamps = await modelStamps(path);
  const source = await readModel(path);
  const addon = loadAddon();
  const machine = nativeCall(() => addon.machine());
  const requested = encoderOptions(source, given, machine);
  const identity = await identifyModel(source.files, { signal, onProgress: onIdentify });
  checkHeapSize(source.decoder.vocabularySize);
  const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
  const rows = await resolveExpectedRows(requested.options, tokenizer);
  stopIfAborted();
  const whole = layers ? partOf(source, layers) : source;
  const shared = tensorParallel ? shareOf(whole, tensorParallel) : whole;
  const { numerics, memory } = requested.settings;
  if (shared.decoder.share?.attention && memory.cacheOnDisk > 0)
    throw new UsageError(
      `tensorParallel.attention: found rows beside a share of the cache on disk, ${memory.cacheOnDisk}, expected heads, or the cache in memory`,
    );
  const eviction = numerics.kvEviction === undefined ? undefined : parseKeyEviction('kvEviction', numerics.kvEviction);
  const kept = eviction ? evictKeys(shared, eviction) : shared;
  const part = numerics.weightsLayout === 'int8' ? { ...kept, bindings: int8Bindings(kept.bindings) } : kept;
  if (eviction && memory.gpu)
    throw new UsageError(
      'kvEviction: found a law beside gpuMemory, expected none: the processor lets go of keys alone',
    );
  const plan = await planEngine(part, requested, machine, rows.expected, {
    repackedBytes: () => {
      const bindings = compressBindings(part.bindings, numerics.compressWeights);
      return repackedBytes(memory.disk, { ...part, bindings }, identity);
    },
  });
  const layout = withinBudget(memory.budget, () => layOutMemory(addon, part, requested, plan, machine, rows));
  if (eviction && layout.settings.memory.cacheOnDisk > 0)
    throw new UsageError(
      `kvEviction: found a share of the cache on disk, ${layout.settings.memory.cacheOnDisk}, expected none: give cache { cpu: 1, disk: 0 }`,
    );
  laidOut(layout);
  return { addon, requested, source, stamps, identity, tokenizer, layout };
}

/** @throws MemoryBudgetError, of the budget that engines share where that is what an engine does not fit into */
function withinBudget<T>(budget: MemoryBudget | undefined, layOut: () => T): T {
  try {
    return layOut();
  } catch (error) {
    if (!budget || !(error instanceof MemoryBudgetError) || error.tier !== 'cpu') throw error;
    const { bytes, reservedBytes } = budget;
    // Its own `cpuMemory` is the smaller one.
    if (error.availableBytes < bytes - reservedBytes) throw error;
    throw new MemoryBudgetError(
      'cpu',
      bytes,
      error.neededBytes + reservedBytes,
      'the model with its working memory',
      reservedBytes,
    );
  }
}
