import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkFunction, checkSignal } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { number, oneOf, size, text, whole } from '../arguments/memberChecks.js';
import type { Addon, MachineFacts } from '../bindings/Addon.js';
import type { MachineFigures } from '../bindings/Profile.js';
import type { GpuFacts } from '../bindings/Gpu.js';
import { loadAddon } from '../bindings/loadAddon.js';
import { stoppable } from '../bindings/stoppable.js';
import { UsageError } from '../errors/UsageError.js';
import { formatBytes, parseBytes, parseBytesOrNone, type Size } from '../units.js';
import { defaultDiskFolder } from '../engine/open/diskFolder.js';
import { gpuBytes, requireGpu } from '../engine/open/gpuBudget.js';
import { BLOCK_LIMITS } from '../plan/Policy.js';
import { MATMUL_WEIGHTS, parseHardware, type HardwareProfile, type MatmulWeights } from '../plan/HardwareProfile.js';
import { PAGE_TOKENS } from '../plan/reserves.js';
import { Disturbance } from './disturbance.js';
import { freeMemory } from './freeMemory.js';
import { hardwareOf } from './hardwareOf.js';

/** How far measuring is. */
export interface ProfileProgress {
  readonly done: number;
  readonly total: number;
  /** The thing being measured, in words. */
  readonly what: string;
}

export interface ProfileOptions {
  /**
   * Folder of repacked models and spill files, whose disk is measured; made where it is missing. Default: the one in
   * the user's cache folder.
   */
  readonly disk?: string | undefined;
  /**
   * Most that is written there, for as long as measuring takes; never more than a quarter of what is free. 0: no disk.
   * Default 256 MiB, at most 1 GiB.
   */
  readonly diskBytes?: Size | undefined;
  /**
   * Memory of the first GPU that runs may use: the GPU is measured too then, with at most 768 MiB of it; at least 64
   * MiB. Default 0: no GPU.
   */
  readonly gpuMemory?: Size | undefined;
  /**
   * Products of these kinds of weights are measured, with the best instruction set alone: what a plan asks for, in half
   * the time. Default: all kinds, and all instruction sets.
   */
  readonly weights?: readonly MatmulWeights[] | undefined;
  /** Threads that the main figures are for. Default: all that this process may use. */
  readonly threads?: number | undefined;
  /**
   * Memory that measuring takes, beside some 40 MiB. Default 128 MiB, or an eighth of what is free; at least 16 MiB.
   */
  readonly memory?: Size | undefined;
  /**
   * 1, the default, is some ten seconds. Less takes less time and is less certain, and below 0.5 leaves other
   * instruction sets than the best out; above 0, at most 100.
   */
  readonly budget?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: ProfileProgress) => void) | undefined;
  /** Told in a line what is kept of this machine and cannot be used. */
  readonly onNote?: ((line: string) => void) | undefined;
}

const DISK_BYTES = 256 * 2 ** 20;
/** From here on there is time for instruction sets that runs do not use by default. */
const WHOLE_BUDGET = 0.5;
const MOST_DISK_BYTES = 2 ** 30;
/** Less has no room for what is measured there. */
const LEAST_GPU_BYTES = 64 * 2 ** 20;
/** The addon takes no more (native/profile/gpu/GpuBench.cpp). */
const MOST_GPU_BYTES = 2 ** 30;

/**
 * Measures this machine, on a thread beside JavaScript's: memory, disk, matrix products, attention, quantising,
 * sampling and the cost of a task, with the engine's own kernels, threads and files, each as a median with its spread.
 * It takes some ten seconds. A disk that cannot be measured (full, no direct input and output) is left out and the
 * profile says why.
 *
 * With `gpuMemory` the first GPU is measured as well, in some four seconds more: copies to and from it, its memory,
 * products, attention, quantising, sampling, and the cost of a task there. (So far this has run on an emulated GPU
 * alone, whose figures mean nothing.)
 *
 * The figures are of a machine that is free; neighbours who compute meanwhile lower them, and then the profile says so
 * (`disturbed`).
 *
 * @throws UsageError for an option out of range, and a GPU that is not there; NativeError where there is no addon or no
 * memory; InterruptedError when `signal` fires
 */
export async function profileMachine(options: ProfileOptions = {}): Promise<HardwareProfile> {
  checkProfileOptions(options);
  const { disk = defaultDiskFolder(), budget = 1, signal, onProgress } = options;
  const addon = loadAddon();
  const machine = addon.machine();
  const threads = options.threads ?? Math.min(machine.processors, BLOCK_LIMITS.threads);
  const diskBytes = diskBytesOf(options.diskBytes);
  const gpu = gpuOf(options.gpuMemory, machine);
  const disturbance = new Disturbance();
  const figures = await measure(
    addon,
    {
      threads,
      coreThreads: machine.cores,
      budget,
      pageTokens: PAGE_TOKENS,
      weights: options.weights ?? MATMUL_WEIGHTS,
      otherInstructionSets: budget >= WHOLE_BUDGET && options.weights === undefined,
      speedOnly: false,
      ...(diskBytes > 0 && { disk: { folder: disk, bytes: diskBytes } }),
      ...(gpu && { gpu: { device: 0, memoryBytes: Math.min(gpu.capBytes, MOST_GPU_BYTES) } }),
      ...(options.memory !== undefined && { memoryBytes: Math.min(parseBytes(options.memory, 'memory'), 2 ** 32) }),
    },
    signal,
    onProgress,
  );
  const free = await freeMemory(machine, diskBytes > 0 ? disk : undefined, gpu?.capBytes);
  const profile = hardwareOf(
    figures,
    { ...identityOf(machine), ...(gpu && identityOfGpu(gpu.facts)) },
    free,
    machine.cores,
  );
  const disturbed = disturbance.words(mainSpread(profile.spread ?? {}));
  return parseHardware({ ...profile, ...(disturbed !== undefined && { disturbed }) }, 'the profile of this machine');
}

/**
 * Picks what plans go by: neither single requests to the disk, which vary by themselves, nor a task, of which a
 * process's first are slow.
 */
function mainSpread(spread: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(spread).filter(([path]) => path.startsWith('cpu.') && path !== 'cpu.taskSeconds'),
  );
}

const CHECKS: Readonly<Record<keyof ProfileOptions, Check>> = {
  disk: text('a path'),
  diskBytes: (_, value) => {
    diskBytesOf(value as Size);
  },
  gpuMemory: (_, value) => {
    gpuBytes(value as Size);
  },
  weights: (name, value) => {
    if (!Array.isArray(value) || value.length === 0)
      throw new UsageError(`${name}: found ${found(value)}, expected a list of ${MATMUL_WEIGHTS.join(', ')}`);
    for (const each of value) oneOf(...MATMUL_WEIGHTS)(name, each);
  },
  threads: whole(1, BLOCK_LIMITS.threads),
  memory: size,
  budget: number({ least: 0, above: true, most: 100 }),
  signal: checkSignal,
  onProgress: checkFunction,
  onNote: checkFunction,
};

/** @throws UsageError for what is no option, of another type or out of range */
export function checkProfileOptions(options: ProfileOptions): void {
  checkMembers('options', options, CHECKS);
}

/** The GPU that is to be measured, and how much of its memory runs may use; undefined: none. @throws UsageError */
export function gpuOf(
  size: Size | undefined,
  machine: Pick<MachineFacts, 'gpus'>,
): { readonly facts: GpuFacts; readonly capBytes: number } | undefined {
  const capBytes = gpuBytes(size);
  if (capBytes === 0) return undefined;
  const facts = requireGpu(capBytes, machine);
  if (capBytes < LEAST_GPU_BYTES)
    throw new UsageError(
      `gpuMemory: found ${formatBytes(capBytes)}, expected at least ${formatBytes(LEAST_GPU_BYTES)} to measure the GPU with`,
    );
  return { facts, capBytes };
}

/** Gives what tells a GPU from others, in a profile. */
export function identityOfGpu({
  name,
  memoryBytes,
  driver,
}: GpuFacts): Required<Pick<HardwareProfile['machine'], 'gpuName' | 'gpuMemoryBytes' | 'gpuDriver'>> {
  return { gpuName: name.slice(0, 400), gpuMemoryBytes: memoryBytes, gpuDriver: driver };
}

/** Gives what tells this machine from others, in a profile. */
export function identityOf({
  processorName,
  processors,
  memoryBytes,
  instructionSets,
}: MachineFacts): Required<
  Pick<HardwareProfile['machine'], 'processorName' | 'processors' | 'memoryBytes' | 'instructionSet'>
> {
  return {
    processorName: processorName.slice(0, 400),
    processors,
    memoryBytes,
    instructionSet: instructionSets.at(-1) ?? 'scalar',
  };
}

/** Checks the option, and fills in its default. @throws UsageError */
export function diskBytesOf(size: Size | undefined): number {
  if (size === undefined) return DISK_BYTES;
  const bytes = parseBytesOrNone(size, 'diskBytes');
  if (bytes > MOST_DISK_BYTES) throw new UsageError(`diskBytes: found ${String(size)}, expected at most 1GiB`);
  return bytes;
}

/** Measures, and can be stopped. @internal */
export async function measure(
  addon: Addon,
  options: Parameters<Addon['profile']>[0],
  signal: AbortSignal | undefined,
  onProgress: ProfileOptions['onProgress'],
): Promise<MachineFigures> {
  let last = -1;
  const report = (done: number, total: number, what: string): void => {
    if (done !== last) onProgress?.({ done, total, what });
    last = done;
  };
  const measured = await stoppable(signal, report, (progress) => addon.profile(options, progress));
  return withinQuota(measured, addon.machine());
}

/**
 * Gives the speeds, in the long run, of threads whose processor time a cgroup bounds: samples take milliseconds and are
 * of the time in which they are let run, and those that were stopped in the middle are passed over. Pure. @internal
 */
export function withinQuota(
  measured: MachineFigures,
  { processorSeconds }: Pick<MachineFacts, 'processorSeconds'>,
): MachineFigures {
  const share = (threads: number): number => (threads > 0 ? Math.min(1, processorSeconds / threads) : 1);
  return {
    ...measured,
    figures: measured.figures.map((figure) => ({ ...figure, perSecond: figure.perSecond * share(figure.threads) })),
  };
}
