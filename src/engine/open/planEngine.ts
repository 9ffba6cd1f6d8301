import { basename } from 'node:path';
import type { MachineFacts } from '../../bindings/Addon.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ExpectedRows } from '../../ExpectedRows.js';
import { isEncoder } from '../../model/DecoderSpec.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { OPTION_TABLE } from './engineOptions.js';
import type { EnginePlan } from './EnginePlan.js';
import { freeDisk } from './diskFolder.js';
import { recommendCompression } from '../../plan/document/advise.js';
import { atSpeed, type MachineSpeed } from '../../plan/atSpeed.js';
import type { Work } from '../../collections/drained.js';
import { inTurns } from '../../collections/inTurns.js';
import { chooseBlockInParts } from '../../plan/search/chooseBlock.js';
import { choosePolicyInParts, type Choice, type RankedPlan } from '../../plan/search/choosePolicy.js';
import { type HardwareProfile, type MatmulWeights, checkSameMachine, hasGpu } from '../../plan/HardwareProfile.js';
import { shapeOfModel, type ModelShape } from '../../plan/ModelShape.js';
import type { PlacementShares } from '../../plan/Placement.js';
import type { Allowed, PlanRequest } from '../../plan/PlanRequest.js';
import { COMPRESSIONS, type Compression, type Policy } from '../../plan/Policy.js';
import { blockSecondsOf, predict, settingOf } from '../../plan/predict.js';
import { layerFlopsPerToken } from '../../plan/model/computeSeconds.js';
import { layerKinds, matmulKind } from '../../plan/model/matmulKinds.js';
import type { Workload } from '../../plan/Workload.js';
import { policyOptions } from './policyOptions.js';
import { cachedProfile } from '../../profile/cachedProfile.js';
import { speedNow } from '../../profile/speedNow.js';
import type { ProfileOptions } from '../../profile/profileMachine.js';
import {
  capOf,
  DEFAULT_BATCH_SIZE,
  type Block,
  type GpuSettings,
  type MemorySettings,
  type Settings,
} from './settings.js';
import { formatBytes } from '../../units.js';
import type { RequestedOptions } from './validateOptions.js';

/** By which plan an engine is opened, and what that means for opening it. */
export interface Plan {
  /** The plan's report to the caller. */
  readonly report: EnginePlan;
  /** The requested options, with what was planned where they say nothing. */
  readonly options: EngineOptions;
  /** True where layers are to stream even if all of them would fit beside some cache. */
  readonly streams: boolean;
  /** For predictions: what it was planned for. Undefined where nothing is known of the machine. */
  readonly request: PlanRequest | undefined;
  /** Where what runs take is to be kept; undefined where nothing is to be learned. */
  readonly learning?: LearningTarget;
}

/** The kept profile that runs correct, and the options that it is found by. */
export interface LearningTarget {
  readonly profile: HardwareProfile;
  readonly options: ProfileOptions;
}

/** The knowledge of the machine beside its facts, and how it is had; by default of this one. */
export interface PlanSources {
  /** How the profile of this machine is had; replaced in tests, as is the next one. */
  readonly profileOf?: (options: ProfileOptions) => Promise<HardwareProfile>;
  /** How fast the machine is now, over that profile. */
  readonly speedOf?: (
    profile: HardwareProfile,
    disk: string | undefined,
    signal?: AbortSignal,
  ) => Promise<MachineSpeed>;
  /**
   * Says how much of the repacked model lies in the disk folder already: weights that stream take no more there. Asked
   * where a plan may use the disk. Default 0.
   */
  readonly repackedBytes?: () => Promise<number>;
}

/** An engine of few layers is none of so many engines: others have more of them, and need fewer batches. */
const MOST_BATCHES_OF_PART = 8;
/** While the sums of one batch go round the engines that share each layer, they compute the other one. */
const BATCHES_OF_SHARE = 2;
/** Rows of which nothing is known. */
const UNKNOWN_ROWS: ExpectedRows = { promptTokens: 384, newTokens: 128 };
/** Where their number is not known either, the work is that of so many. */
const MANY_ROWS = 1000;
/**
 * Operations of a job below which measuring the machine takes longer than any plan could gain: some tens of seconds on
 * two cores.
 */
const WORTH_MEASURING = 2e13;
/** The search leaves so much more of the JavaScript heap in use than there was before. */
const SEARCH_BYTES = 24 * 2 ** 20;
/** The part of that left once the search has been made. */
const PLANNED_BYTES = 8 * 2 ** 20;
/**
 * The part of the GPU's memory that products by cuBLASLt work on (native/kernels/cuda/CublasLtProducts.cu); of small
 * caps, whose models are small, a quarter at most.
 */
const LIBRARY_BYTES = 96 * 2 ** 20;
/**
 * The default block stays unless a plan is faster by this factor: predictions are no better than that, and larger
 * blocks take more memory.
 */
const CLEARLY_FASTER = 1.1;
/**
 * So does a plan that writes nothing to disk, as writing wears it. Where both were measured, plans that write gained
 * what was predicted, or more (bench/ranking.mjs).
 */
const WORTH_WRITING = 1.03;
/** Memory for so many times the weights has room for rows as well. */
const SPACIOUS = 2;
/** A compression is recommended that is at least so much faster. */
const WORTH_A_WORD = 1.2;
/** The treatment of a GPU of which no figures are there. */
const UNPLANNED = 'what fits is put on it, the rest in memory, then on disk';
const NOT_MEASURED = `the GPU of this machine has not been measured: ${UNPLANNED}`;

/**
 * The second step of opening an engine: the plan by which it is opened. Searches, or completes what was given. Where
 * nothing can be known of the machine, or the work is too little to be planned for, the defaults stay, and the plan
 * says why.
 *
 * @param expected rows to plan for; undefined: nothing is known of them
 * @throws UsageError for a hardware profile of another machine, for a policy that this machine cannot follow, and for a
 *   `maxLatency` that no plan keeps
 */
export async function planEngine(
  source: ModelSource,
  { options, settings }: RequestedOptions,
  machine: MachineFacts,
  expected: ExpectedRows | undefined,
  { profileOf = cachedProfile, speedOf = speedNow, repackedBytes = () => Promise.resolve(0) }: PlanSources = {},
): Promise<Plan> {
  const { policy: chosen = OPTION_TABLE.policy.default, learn = OPTION_TABLE.learn.default } = options;
  const { numerics, block, memory } = settings;
  const { gpu: onGpu } = memory;
  const capBytes = capOf(memory, machine);
  const { maxLatency } = options;
  const unplanned = (origin: EnginePlan['origin'], why?: string, request?: PlanRequest): Plan => {
    if (maxLatency !== undefined)
      throw new UsageError(
        `maxLatency: found ${maxLatency}, but nothing can be planned to keep it: ${why ?? 'engines that share a model agree on their blocks, and none of them plans'}`,
      );
    return {
      report: { origin, ...(why !== undefined && { why }), ...(request && { workload: request.workload }) },
      options,
      streams: false,
      request,
    };
  };
  // Engines that share a model's layers have to agree on their blocks: none of them plans for itself.
  if (options.layers !== undefined || options.tensorParallel !== undefined)
    return {
      ...unplanned(originOf(chosen)),
      options: { ...options, batches: options.batches ?? batchesOfPart(source) },
    };
  if (chosen === 'default') return unplanned(originOf(chosen));
  // Rows of an encoder are one pass each: a square of the usual size computes longer than its layers take to come.
  if (isEncoder(source.decoder))
    return unplanned(originOf(chosen), maxLatency === undefined ? undefined : 'encoders are not planned for');
  if (onGpu) {
    if (typeof options.hardware === 'object' && !hasGpu(options.hardware))
      return unplanned(originOf(chosen), NOT_MEASURED);
    if (
      chosen === 'auto' &&
      (options.weights !== undefined || options.cache !== undefined || options.activations !== undefined)
    ) {
      return unplanned('default', 'beside a GPU nothing is planned where placements are given');
    }
  }
  if (numerics.precision === 'float32')
    return unplanned(originOf(chosen), 'precision float32 is for checking, and not planned for');

  const shape = shapeOfModel(source, basename(source.path));
  const workload = workloadOf(expected ?? UNKNOWN_ROWS, shape);
  let hardware: HardwareProfile;
  let speed: MachineSpeed | undefined;
  let learning: LearningTarget | undefined;
  // Profile and corrections are of the engine's own kernels, and of weights as files have them.
  const learns = learn && ownProducts(onGpu) && numerics.weightsLayout === undefined;
  const notes: string[] = [];
  if (typeof options.hardware === 'object') {
    const gpu = onGpu && machine.gpus[onGpu.device];
    checkSameMachine(options.hardware, { ...machine, ...(gpu && { gpuName: gpu.name }) });
    hardware = options.hardware;
  } else {
    if (maxLatency === undefined && (expected?.rows === 0 || work(shape, workload) < WORTH_MEASURING))
      return unplanned(
        originOf(chosen),
        onGpu && `there is too little work to measure the GPU of this machine for: ${UNPLANNED}`,
      );
    try {
      const usesDisk = mayUseDisk(shape, options, memory, capBytes);
      const where: ProfileOptions = {
        disk: memory.disk,
        threads: block.threads,
        // Other instruction sets are in a whole profile alone.
        ...(numerics.instructionSet === machine.instructionSets.at(-1) && {
          weights: productsAskedFor(shape, options),
        }),
        ...(!usesDisk && { diskBytes: 0 }),
        ...(onGpu && { gpuMemory: onGpu.capBytes }),
      };
      let measuredNow = false;
      const { corrections, ...profile } = await profileOf({
        ...where,
        signal: options.signal,
        onProgress: (progress) => {
          measuredNow = true;
          options.onProfile?.(progress);
        },
        onNote: (line) => notes.push(line),
      });
      if (onGpu && !hasGpu(profile)) return unplanned(originOf(chosen), NOT_MEASURED);
      const known = { ...profile, ...(corrections && learns && { corrections }) };
      if (!measuredNow) speed = await speedOf(profile, usesDisk ? memory.disk : undefined, options.signal);
      hardware = speed ? atSpeed(known, speed) : known;
      if (learns) learning = { profile, options: where };
    } catch (error) {
      if (!(error instanceof SpillwayError) || error instanceof InterruptedError) throw error;
      // Said once.
      if (maxLatency !== undefined && error instanceof UsageError) throw error;
      return unplanned(originOf(chosen), error.message);
    }
  }
  const request: PlanRequest = {
    hardware: await machineNow(hardware, settings, capBytes, repackedBytes),
    shape,
    workload,
    allow: allowed(options, settings),
    maxLatencySeconds: maxLatency,
  };
  const planned =
    typeof chosen === 'object'
      ? unplanned('policy', undefined, request)
      : ((await searched({ options, settings }, capBytes, request)) ??
        unplanned('default', nothingFits(request), request));
  const report = { ...planned.report, ...(speed && { machineSpeed: speed }), ...(notes.length > 0 && { notes }) };
  return { ...planned, report, ...(learning && { learning }) };
}

/** Says what there is, as the disk may be what is short. */
function nothingFits({ hardware: { memory } }: PlanRequest): string {
  const { cpuBytes, diskBytes } = memory;
  return `no plan fits the memory and the disk: found ${formatBytes(cpuBytes)} and ${formatBytes(diskBytes)} free`;
}

/**
 * So many batches keep an engine of some of the layers busy, if it has the most: while it computes one, the others are
 * with the other engines. Of an engine that has a share of each layer: enough to hide the sums' way.
 */
function batchesOfPart({ decoder: { layers, part, share } }: ModelSource): number {
  if (share) return BATCHES_OF_SHARE;
  return part ? Math.min(MOST_BATCHES_OF_PART, Math.ceil(part.modelLayers / layers)) : 1;
}

/** Weights whose products a plan asks for: the model's, those that it may become, and what advice speaks of. */
function productsAskedFor(shape: ModelShape, { policy, compressWeights = 'none' }: EngineOptions): MatmulWeights[] {
  const wanted: readonly Compression[] = [
    'none',
    '4bit',
    ...(typeof policy === 'object' ? [policy.compressWeights] : compressions(compressWeights)),
  ];
  const { weightType, headWeightType = weightType } = shape;
  return [
    ...new Set([
      ...wanted.flatMap((compressed) => layerKinds(shape, compressed).map(({ kind }) => kind)),
      matmulKind({ weightType: headWeightType }, 'none'),
    ]),
  ];
}

/** Tells whether the disk is used, or memory so scarce that a plan could use it: else nobody asks how fast it is. */
function mayUseDisk(
  { layers, layerWeightBytes, globalWeightBytes }: ModelShape,
  { weights }: EngineOptions,
  memory: MemorySettings,
  capBytes: number,
): boolean {
  return (
    (weights?.disk ?? 0) > 0 ||
    memory.cacheOnDisk > 0 ||
    memory.activationsOnDisk > 0 ||
    SPACIOUS * (layers * layerWeightBytes + globalWeightBytes) > capBytes - process.memoryUsage.rss()
  );
}

function originOf(chosen: 'auto' | 'default' | Policy): EnginePlan['origin'] {
  return typeof chosen === 'object' ? 'policy' : 'default';
}

/** Tells whether nothing is multiplied by a library of others. */
function ownProducts(gpu: GpuSettings | undefined): boolean {
  return gpu === undefined || gpu.products === 'own';
}

/** Undefined where by the model nothing fits: whoever opens the engine finds out exactly, and says what would. */
async function searched(
  { options: given, settings }: RequestedOptions,
  capBytes: number,
  first: PlanRequest,
): Promise<Plan | undefined> {
  const { memory, block } = settings;
  const withGpu = memory.gpu !== undefined;
  const shares = settledShares(given, memory);
  const search = async (request: PlanRequest): Promise<RankedPlan | undefined> =>
    shares ? inSlices(chooseBlockInParts(request, shares), given.signal) : bestPlan(request, given.signal);
  let request = first;
  let best = await search(request);
  const cpuBytes = leftBytes(capBytes, PLANNED_BYTES);
  if (
    (best === undefined || best.policy.weights.disk > 0 || best.policy.cache.disk > 0) &&
    cpuBytes > first.hardware.memory.cpuBytes
  ) {
    // Memory is scarce, and what a search takes of it is known by now.
    request = { ...first, hardware: { ...first.hardware, memory: { ...first.hardware.memory, cpuBytes } } };
    best = await search(request);
  }
  if (best === undefined) return undefined;
  const usual = shares || withGpu ? undefined : usualPlan(request, block);
  const plan =
    usual && best.predicted.tokensPerSecond < usual.predicted.tokensPerSecond * CLEARLY_FASTER ? usual : best;
  const { weights: planned, ...planOptions } = policyOptions(plan.policy, withGpu);
  const streams = given.weights === undefined && (planned?.disk ?? 0) > 0;
  // Usually the cache has its pages first, and as much of the weights stays as there is room for; where rows come in as
  // pages come free it is the other way round.
  const inTurn = settingOf(request, plan.policy).setting.workload.cachePages !== undefined;
  const { compressWeights, compressCache, ...rest } = given;
  return {
    report: {
      origin: 'auto',
      workload: request.workload,
      policy: plan.policy,
      predicted: plan.predicted,
      recommended: shares
        ? []
        : await inSlices(
            recommendCompression(request, plan.policy, plan.predicted.tokensPerSecond, WORTH_A_WORD),
            given.signal,
          ),
    },
    options: {
      ...planOptions,
      ...(streams && inTurn && { weights: planned }),
      ...rest,
      // `auto` is what the plan says.
      ...(compressWeights !== undefined && compressWeights !== 'auto' && { compressWeights }),
      ...(compressCache !== undefined && compressCache !== 'auto' && { compressCache }),
    },
    streams,
    request,
  };
}

/** The best plan; undefined if nothing fits. */
async function bestPlan(request: PlanRequest, signal: AbortSignal | undefined): Promise<RankedPlan | undefined> {
  try {
    return bestOrReadsOnly(await inSlices(choosePolicyInParts(request), signal));
  } catch (error) {
    if (!(error instanceof MemoryBudgetError)) throw error;
    return undefined;
  }
}

/** Plans, and gives the event loop its turn meanwhile. @throws InterruptedError */
async function inSlices<T>(work: Work<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await inTurns(work, { signal });
  } catch (error) {
    throw signal?.aborted ? new InterruptedError(signal.reason) : error;
  }
}

function bestOrReadsOnly({ readsOnly, ...best }: Choice): RankedPlan {
  return readsOnly !== undefined && best.predicted.tokensPerSecond < readsOnly.predicted.tokensPerSecond * WORTH_WRITING
    ? readsOnly
    : best;
}

/** Finds the plan of an engine that nobody plans for, where the request allows it and it fits. */
function usualPlan(request: PlanRequest, block: Block): RankedPlan | undefined {
  const { allow = {}, workload } = request;
  const { schedules, batchSize, batches, compressWeights, compressCache, ...more } = allow;
  const { sparseAttention, threads, tokensPerSquare } = more;
  if (compressWeights?.length !== 1 || compressCache?.length !== 1) return undefined;
  const policy: Policy = {
    schedule: schedules?.[0] ?? block.schedule,
    batchSize: batchSize ?? Math.min(DEFAULT_BATCH_SIZE, workload.rows ?? Infinity, tokensPerSquare ?? Infinity),
    batches: batches ?? 1,
    ...IN_MEMORY,
    compressWeights: compressWeights[0] ?? 'none',
    compressCache: compressCache[0] ?? 'none',
    cpuAttention: true,
    ...(sparseAttention !== undefined && { sparseAttention }),
    ...(threads !== undefined && { threads }),
    ...(tokensPerSquare !== undefined && { tokensPerSquare }),
  };
  const predicted = predict(request, policy);
  if (!predicted.fits) return undefined;
  const { maxLatencySeconds } = request;
  if (maxLatencySeconds === undefined) return { policy, predicted };
  const latencySeconds = blockSecondsOf(request, policy);
  return latencySeconds <= maxLatencySeconds ? { policy, predicted: { ...predicted, latencySeconds } } : undefined;
}

const onCpu = { gpu: 0, cpu: 1, disk: 0 };
const IN_MEMORY: PlacementShares = { weights: onCpu, cache: onCpu, activations: onCpu };

/** Placements that the caller has settled; undefined where all are open. */
function settledShares(
  { weights, cache, activations }: EngineOptions,
  { cacheOnDisk, activationsOnDisk }: MemorySettings,
): Parameters<typeof chooseBlockInParts>[1] | undefined {
  if (weights === undefined && cache === undefined && activations === undefined) return undefined;
  const onDisk = (disk: number): PlacementShares['cache'] => ({ gpu: 0, cpu: 1 - disk, disk });
  return {
    cache: onDisk(cacheOnDisk),
    activations: onDisk(activationsOnDisk),
    ...(weights && { weights: onDisk(weights.disk) }),
  };
}

/** Lists what the options leave to the search. */
function allowed(given: EngineOptions, { block, memory, numerics: { sparseAttention } }: Settings): Allowed {
  return {
    ...(sparseAttention < 1 && { sparseAttention }),
    ...(given.schedule !== undefined && { schedules: [given.schedule] }),
    batchSize: given.batchSize,
    batches: given.batches,
    threads: given.threads,
    tokensPerSquare: given.tokensPerSquare,
    compressWeights: compressions(given.compressWeights),
    compressCache: compressions(given.compressCache),
    ...(memory.gpu && given.cpuAttention !== undefined && { cpuAttention: [given.cpuAttention] }),
    ...(given.batchSize === undefined && { mostBatchSize: Math.min(256, block.tokensPerSquare) }),
  };
}

function compressions(flag: Compression | 'auto' = 'none'): readonly Compression[] {
  return flag === 'auto' ? COMPRESSIONS : [flag];
}

/** The machine with the memory that this process may take now: what it holds already is its own. */
async function machineNow(
  hardware: HardwareProfile,
  { numerics: { instructionSet }, memory }: Settings,
  capBytes: number,
  repackedBytes: () => Promise<number>,
): Promise<HardwareProfile> {
  const { gpu, disk, diskBytes } = memory;
  const gpuCap = gpu?.capBytes ?? 0;
  const workspace = ownProducts(gpu) ? 0 : Math.min(LIBRARY_BYTES, gpuCap / 4);
  const measured =
    hardware.links.diskReadBytesPerSecond !== undefined && hardware.links.diskWriteBytesPerSecond !== undefined;
  const cpuBytes = leftBytes(capBytes, SEARCH_BYTES);
  return {
    ...hardware,
    machine: { instructionSet, ...hardware.machine },
    usableFraction: 1,
    memory: {
      gpuBytes: gpuCap - workspace,
      cpuBytes,
      diskBytes: measured ? Math.min(diskBytes, (await freeDisk(disk)) + (await repackedBytes())) : 0,
    },
  };
}

/** Says what the cap leaves to plan for, where the process grows by `more` until the engine is open. */
function leftBytes(capBytes: number, more: number): number {
  return Math.max(1, capBytes - process.memoryUsage.rss() - more);
}

/** Lengths that make sense for the model. */
function workloadOf(
  { promptTokens, newTokens, sharedPrefixTokens = 0, rows }: ExpectedRows,
  { contextTokens }: ModelShape,
): Workload {
  const within = (tokens: number, most: number): number => Math.max(1, Math.min(Math.round(tokens), most));
  const answer = within(newTokens, Math.ceil(contextTokens / 2));
  const prompt = within(promptTokens, contextTokens + 1 - answer);
  const shared = Math.max(0, Math.min(Math.round(sharedPrefixTokens), prompt - 1));
  return {
    promptTokens: prompt,
    newTokens: answer,
    ...(shared > 0 && { sharedPrefixTokens: shared }),
    ...(rows !== undefined && { rows: Math.max(1, rows) }),
  };
}

/** Operations of all rows' products. */
function work(
  shape: ModelShape,
  { promptTokens, newTokens, sharedPrefixTokens = 0, rows = MANY_ROWS }: Workload,
): number {
  return rows * (promptTokens - sharedPrefixTokens + newTokens) * layerFlopsPerToken(shape) * shape.layers;
}
