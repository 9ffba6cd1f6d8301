import type { InstructionSet, MachineFacts } from '../../bindings/Addon.js';
import type { GpuProducts } from '../../bindings/Gpu.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import type { MemoryBudget } from '../../MemoryBudget.js';
import type { WeightCompression } from '../../model/compressBindings.js';
import { formatBytes, parseBytes } from '../../units.js';
import { defaultDiskFolder } from './diskFolder.js';
import { OPTION_TABLE } from './engineOptions.js';
import { gpuBytes, NO_GPU, requireGpu } from './gpuBudget.js';
import { BLOCK_LIMITS, hostShare } from '../../plan/Policy.js';
import type { TierShares } from '../../plan/Placement.js';
import type { ScheduleName } from '../schedules/blockSchedules.js';

/** An engine's options with every default filled in that depends on nothing but the machine, by whom they are for. */
export interface Settings {
  readonly numerics: Numerics;
  readonly block: Block;
  readonly memory: MemorySettings;
}

/** Settings that change results. */
export interface Numerics {
  readonly precision: 'default' | 'float32';
  readonly compressWeights: WeightCompression;
  /** There where it is not as the file has it. */
  readonly weightsLayout?: 'int8';
  readonly compressCache: 'none' | '8bit' | '4bit';
  /** Share of the keys that a decoding query attends to; 1 = all. */
  readonly sparseAttention: number;
  readonly instructionSet: InstructionSet;
  /** Which keys a row keeps; absent: all. */
  readonly kvEviction?: string | undefined;
}

/** How rows share a pass over the layers. */
export interface Block {
  /** Schedule of runs that bring none of their own. */
  readonly schedule: ScheduleName;
  readonly slots: number;
  readonly rowsPerSlot: number;
  readonly tokensPerSquare: number;
  readonly threads: number;
}

/** How much of each tier may be used, and what is to be where. */
export interface MemorySettings {
  /** Cap on the process's resident memory, where the caller says one: see `capOf`. */
  readonly cpuMemory: number | undefined;
  /** The budget that this engine shares with others of the process. */
  readonly budget: MemoryBudget | undefined;
  /** Undefined where the processor computes. */
  readonly gpu: GpuSettings | undefined;
  /** Share of what is not on the GPU of every layer's weights in memory, where somebody has decided it. */
  readonly weightShare: number | undefined;
  /** Shares that live on disk. */
  readonly cacheOnDisk: number;
  readonly activationsOnDisk: number;
  /** Folder for repacked models and spill files, and the most that they may take there. */
  readonly disk: string;
  readonly diskBytes: number;
}

/** Limits of what may be on the GPU. */
export interface GpuSettings {
  /** Index into `machine().gpus`. */
  readonly device: number;
  /** Cap on what is reserved there. */
  readonly capBytes: number;
  /** The code that multiplies there. */
  readonly products: GpuProducts;
  /** Shares of every layer's weights and of each row's KV cache that live there, where somebody has decided it. */
  readonly weightShare: number | undefined;
  readonly cacheShare: number | undefined;
  /** The share of the batches whose hidden states stay on the GPU between two layers. */
  readonly activationShare: number;
  /** The share that the processor attends to of the cache that is not on the GPU; the rest comes to the GPU. */
  readonly hostShare: number;
}

/** Rows of a batch where nobody says otherwise. */
export const DEFAULT_BATCH_SIZE = 64;
const TOKENS_PER_SQUARE = 512;

/**
 * Fills in the defaults.
 *
 * @param options as `validateOptions` leaves them, or with what a plan has chosen
 * @throws UsageError naming the option, what was found and what was expected
 */
export function settle(options: EngineOptions, machine: MachineFacts): Settings {
  const block = blockOf(options, machine);
  const onGpu = gpuMemory(options, machine);
  const products = gpuProducts(options, onGpu);
  const { cpuAttention = OPTION_TABLE.cpuAttention.default } = options;
  const byHost = hostShare({ cpuAttention });
  if (byHost < 1 && onGpu === 0)
    throw new UsageError(
      `cpuAttention: found ${cpuAttention} without \`gpuMemory\`, expected true: without a GPU the processor attends to everything`,
    );
  const [weights, cache, activations] = (['weights', 'cache', 'activations'] as const).map((name) =>
    shares(name, options[name], onGpu > 0),
  );
  return {
    numerics: numericsOf(options, machine),
    block,
    memory: {
      cpuMemory: options.cpuMemory === undefined ? undefined : parseBytes(options.cpuMemory, 'cpuMemory'),
      budget: options.memoryBudget,
      gpu: onGpu > 0 ? gpuSettings(onGpu, products, byHost, { weights, cache, activations }) : undefined,
      weightShare: weights && (weights.cpu + weights.disk > 0 ? weights.cpu / (weights.cpu + weights.disk) : 1),
      cacheOnDisk: cache?.disk ?? 0,
      activationsOnDisk: activations?.disk ?? 0,
      disk: options.disk ?? defaultDiskFolder(),
      diskBytes: options.diskMemory === undefined ? Infinity : parseBytes(options.diskMemory, 'diskMemory'),
    },
  };
}

/**
 * The cap on the process's resident memory: the caller's, else what the machine has free at this moment, less a margin
 * for everybody else, plus what this process holds already; and at most what other engines leave of a shared budget.
 */
export function capOf({ cpuMemory, budget }: MemorySettings, { availableBytes }: MachineFacts): number {
  const cap = cpuMemory ?? Math.floor(availableBytes * 0.9) + process.memoryUsage.rss();
  return budget ? Math.min(cap, budget.bytes - budget.reservedBytes) : cap;
}

function numericsOf(options: EngineOptions, machine: MachineFacts): Numerics {
  const { precision = OPTION_TABLE.precision.default, sparseAttention = OPTION_TABLE.sparseAttention.default } =
    options;
  // Nobody has chosen yet: none, until somebody does.
  const chosen = <Kind extends string>(kind: Kind | 'auto' = 'auto'): Kind | 'none' =>
    kind === 'auto' ? 'none' : kind;
  return {
    precision,
    compressWeights: chosen(options.compressWeights),
    ...(options.weightsLayout === 'int8' && { weightsLayout: options.weightsLayout }),
    compressCache: chosen(options.compressCache),
    sparseAttention,
    instructionSet: instructionSetOf(options, machine),
    ...(options.kvEviction !== undefined &&
      options.kvEviction !== OPTION_TABLE.kvEviction.default && { kvEviction: options.kvEviction }),
  };
}

/** @throws UsageError */
function blockOf(options: EngineOptions, { processors }: MachineFacts): Block {
  const {
    schedule = OPTION_TABLE.schedule.default,
    batches: slots = 1,
    threads = Math.min(processors, BLOCK_LIMITS.threads),
  } = options;
  const { batchSize: rowsPerSlot = Math.min(DEFAULT_BATCH_SIZE, options.tokensPerSquare ?? Infinity) } = options;
  const { tokensPerSquare = Math.max(TOKENS_PER_SQUARE, rowsPerSlot) } = options;
  if (rowsPerSlot > tokensPerSquare)
    throw new UsageError(
      `batchSize: found ${rowsPerSlot}, expected at most tokensPerSquare, ${tokensPerSquare}: every row has a token in a square`,
    );
  return { schedule, slots, rowsPerSlot, tokensPerSquare, threads };
}

/** @returns 0 where the processor computes. @throws UsageError */
function gpuMemory({ gpuMemory: asked, device }: EngineOptions, machine: MachineFacts): number {
  const bytes = gpuBytes(asked);
  if (bytes === 0) {
    if (device === 'cuda')
      throw new UsageError(
        machine.gpus.length === 0
          ? `device: found "cuda", but ${NO_GPU}: expected auto or cpu`
          : 'device: found "cuda" without `gpuMemory`, expected it beside: how much memory of the GPU may be used',
      );
    return 0;
  }
  if (device === 'cpu')
    throw new UsageError(
      `gpuMemory: found ${formatBytes(bytes)} beside device "cpu", expected 0, or device auto or cuda`,
    );
  requireGpu(bytes, machine);
  return bytes;
}

/** @throws UsageError */
function gpuProducts(
  { gpuProducts: products = OPTION_TABLE.gpuProducts.default }: EngineOptions,
  onGpu: number,
): GpuProducts {
  if (products === 'cublaslt' && onGpu === 0)
    throw new UsageError(
      'gpuProducts: found "cublaslt" without `gpuMemory`, expected it beside: how much memory of the GPU may be used',
    );
  return products;
}

type Shares = { readonly [Name in 'weights' | 'cache' | 'activations']: TierShares | undefined };

/** @throws UsageError */
function gpuSettings(
  capBytes: number,
  products: GpuProducts,
  byHost: number,
  { weights, cache, activations }: Shares,
): GpuSettings {
  return {
    device: 0,
    capBytes,
    products,
    weightShare: weights?.gpu,
    cacheShare: cache?.gpu,
    activationShare: activations?.gpu ?? 1,
    hostShare: byHost,
  };
}

function shares(name: string, given: EngineOptions['weights'], withGpu: boolean): TierShares | undefined {
  if (given === undefined) return undefined;
  const { gpu = 0, cpu, disk } = given;
  if (gpu > 0 && !withGpu) throw new UsageError(`${name}: found gpu ${gpu}, expected 0 without \`gpuMemory\``);
  return { gpu, cpu, disk };
}

function instructionSetOf({ instructionSet }: EngineOptions, { instructionSets }: MachineFacts): InstructionSet {
  const best = instructionSets.at(-1) ?? 'scalar';
  if (instructionSet === undefined) return best;
  if (!instructionSets.includes(instructionSet))
    throw new UsageError(`instructionSet: found "${instructionSet}", this machine has: ${instructionSets.join(', ')}`);
  return instructionSet;
}
