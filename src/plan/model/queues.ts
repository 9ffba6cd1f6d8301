import { sum, times, type Affine } from '../Affine.js';
import type { BlockSetting } from '../CostModel.js';
import { hasGpu } from '../HardwareProfile.js';
import { attendingShare } from '../ModelShape.js';
import type { PlacementShares } from '../Placement.js';
import { hostShare } from '../Policy.js';
import { type Corrections, computeFactor } from '../corrections.js';
import { PAGE_TOKENS } from '../reserves.js';
import { sharesOfLayerRead } from './chosenExperts.js';
import { valuesRead } from './chosenValues.js';
import { diskRates, linkRates } from './transferRates.js';
import {
  choosingSeconds,
  decodeAttentionSeconds,
  dequantiseSeconds,
  finishSeconds,
  headSeconds,
  hostAttentionSeconds,
  partSeconds,
  prefillAttentionSeconds,
  projectSeconds,
  sharedAttentionSeconds,
  type ComputeSetting,
} from './computeSeconds.js';
import { matmulKind } from './matmulKinds.js';
import type { Sizes } from './sizes.js';
import type { SweepClass } from './countSweeps.js';

/** Seconds of each queue for one layer of one sweep. */
export interface LayerQueues {
  readonly queues: Readonly<Record<string, Affine>>;
  readonly bounds: readonly Affine[];
  /** The one of the bounds that is a square's own way, which others leave it time for. */
  readonly ownWay?: Affine;
}

/** How a setting computes on its GPU (absent without one) and its CPU. */
export function computeSettings({ hardware, shape, block }: BlockSetting): {
  readonly gpu: ComputeSetting | undefined;
  readonly cpu: ComputeSetting;
} {
  const { compressWeights, compressCache, sparseAttention, threads } = block;
  const common = { shape, compressWeights, compressCache, sparseAttention };
  return {
    gpu: hardware.gpu && hardware.memory.gpuBytes > 0 ? { ...common, on: hardware.gpu, isCpu: false } : undefined,
    cpu: { ...common, on: hardware.cpu, threads, isCpu: true },
  };
}

/** Tells whether the processor attends to some of the cache beside a GPU: on a queue of its own. */
export function hostAttends({ hardware, block }: BlockSetting, { cache }: PlacementShares): boolean {
  return hasGpu(hardware) && hostShare(block) > 0 && cache.gpu < 1;
}

/** Tells whether pages of the cache that are not on the GPU come to it. */
export function pagesCome({ hardware, block }: BlockSetting, { cache }: PlacementShares): boolean {
  return hasGpu(hardware) && hostShare(block) < 1 && cache.gpu < 1;
}

/** Tells whether pages come to a GPU, or are read from the disk beside one: before weights that do. */
export function pagesGoFirst(setting: BlockSetting, placement: PlacementShares): boolean {
  return pagesCome(setting, placement) || (hostAttends(setting, placement) && placement.cache.disk > 0);
}

/**
 * Computing and the disk never overlap better than this share of their sum: measured where they were about as busy,
 * with weights alone and with weights, cache and hidden states moving (bench/results, larger than memory and overlap).
 */
export const NOT_OVERLAPPED = 0.62;
/** Between one square and the next the threads wait for about so many times what a task costs. */
export const BETWEEN_SQUARES = 8;

const NONE: Corrections = {};

/**
 * Gives the time that a layer of one sweep asks of every queue: transfers by bytes, computing by tasks.
 * @param streams whether some of the layer's weights come from disk
 */
export function layerQueues(
  setting: BlockSetting,
  sizes: Sizes,
  { squares, load }: SweepClass,
  streams: boolean,
): LayerQueues {
  const { hardware, shape, block } = setting;
  const { links, corrections = NONE } = hardware;
  const { gpu, cpu } = computeSettings(setting);
  const { layerWeightBytes: w, tokenCacheBytes, tokenActivationBytes } = sizes;
  const tokens = load.promptTokens + load.decodeRows;
  const shares = sharesOfLayerRead(shape, squares * tokens);
  const read = gpu ? w : w * shares.all;
  // Pages that come to a GPU come and go wholly, those that all rows share once for each square. Where the processor
  // attends to a row's last pages, those with new tokens are among them.
  const byHost = gpu ? hostShare(block) : 0;
  const { sharedPrefixTokens = 0 } = setting.workload;
  const shared = gpu && byHost < 1 && load.sharedKeys > 0 ? sharedPrefixTokens : 0;
  const begun = gpu && byHost === 0 ? load.decodeRows : 0;
  // Layers keep their share of what was there, and those that keep anything take all that is new.
  const keptBytes = tokenCacheBytes * sizes.keptShare;
  const newBytes = tokenCacheBytes * attendingShare(shape);
  const context = squares * (load.contextTokens + shared + (begun * PAGE_TOKENS) / 2) * keptBytes;
  // Of what decoding rows have on disk, the values that sparse attention takes come last, and the others not at all.
  const decoded = Math.max(0, Math.min(load.contextTokens, load.decodeKeys - load.decodeRows));
  const values = valuesRead(setting);
  const pages = squares * (load.contextTokens - decoded * (1 - values.keyShare)) * keptBytes;
  const chosen = squares * decoded * values.valueShare * keptBytes;
  const fresh = squares * tokens * newBytes;
  const stored = fresh + squares * begun * (PAGE_TOKENS - 1) * newBytes;
  // The first layer's input is embedded, the last one's output sampled, where computing happens.
  const hidden = (squares * tokens * tokenActivationBytes * (shape.layers - 1)) / shape.layers;

  const on = gpu ?? cpu;
  // What tasks cost beside their work.
  const tasks =
    partSeconds(on, 'project') +
    partSeconds(on, 'attend') +
    partSeconds(on, 'finish') +
    (partSeconds(on, 'head') + partSeconds(on, 'embed')) / shape.layers;
  // What runs before this one taught of such squares.
  const corrected = computeFactor(corrections, matmulKind(shape, block.compressWeights), load);
  const perSquare =
    corrected *
    (projectSeconds(on, tokens) +
      finishSeconds(on, tokens) +
      prefillAttentionSeconds(on, load.promptKeys, load.promptTokens) +
      sharedAttentionSeconds(on, load.sharedKeys) +
      headSeconds(on, load.sampledRows) / shape.layers +
      (gpu ? 0 : tasks));
  const attend = corrected * squares * decodeAttentionSeconds(on, load.decodeKeys, load.decodeRows);
  const rates = diskRates(hardware, {
    layerBytes: w,
    pageBytes: tokenCacheBytes * PAGE_TOKENS,
    valueBytes: values.requestBytes,
    streams,
  });
  const chosenSeconds = chosen / rates.readValues;
  const disk = {
    'disk-read': {
      constant: streams ? rates.readOnceSeconds : 0,
      wn: read / rates.read,
      cn: pages / rates.readPages + chosenSeconds,
      hn: hidden / rates.read,
    },
    'disk-write': { cn: fresh / rates.writePages, hn: hidden / rates.write },
  };
  const diskBytes = { wn: read, cn: pages + chosen + fresh, hn: 2 * hidden };
  const memory = 1 / hardware.cpu.memoryBytesPerSecond;
  if (gpu === undefined) {
    // Where values are read once their keys have been chosen, the keys are scored before, too.
    const before = corrected * squares * choosingSeconds(on, load.decodeKeys, load.decodeRows);
    const compute = { constant: squares * perSquare + attend, cn: before };
    const waits = { constant: squares * BETWEEN_SQUARES * on.on.taskSeconds * (corrections['between'] ?? 1) };
    const bounds = [
      // What comes from disk crosses the same memory that computing reads.
      sum(compute, waits, times(memory, diskBytes)),
      // Experts and values that have been chosen are read by the task that computes with them.
      sum(compute, waits, { wn: (w * shares.byTasks) / rates.read, cn: chosenSeconds }),
      disk['disk-read'],
      disk['disk-write'],
      // Queues that are about as busy wait for each other now and then.
      times(
        Math.min(1, NOT_OVERLAPPED * (corrections['overlap'] ?? 1)),
        sum(compute, disk['disk-read'], disk['disk-write']),
      ),
    ];
    return { queues: { 'cpu-compute': compute, ...disk }, bounds };
  }
  const floats = dequantiseSeconds(gpu, squares * tokens);
  const dequantise = floats.project + floats.finish;
  // The processor attends to pages that rows share for each of them anew.
  const sharedKeys = load.sharedKeys * (load.decodeRows / Math.max(1, tokens));
  const elsewhere = (each: number): Affine => (each === 0 ? {} : { cc: each, cn: each });
  const onCpu = squares * hostAttentionSeconds(cpu, links, load.decodeKeys + sharedKeys, load.decodeRows);
  const gpuCompute: Affine = {
    constant: squares * perSquare + dequantise,
    cg: attend,
    ...elsewhere((1 - byHost) * attend),
  };
  const cpuCompute = elsewhere(byHost * onCpu);
  // With attention on the CPU, queries (with the new keys and values) go down and outputs come up.
  const outputs = byHost > 0 ? squares * load.decodeRows * shape.heads * shape.headDim * 2 : 0;
  const weights: Affine = { wc: w, wn: w };
  const up = sum(weights, { hc: hidden, hn: hidden }, elsewhere((1 - byHost) * context + outputs));
  const down: Affine = { cc: stored + outputs, cn: stored + outputs, hc: hidden, hn: hidden };
  // While the CPU attends for one batch the GPU computes others: a batch's own layer is both, one after the other.
  const ownWay = times(1 / squares, sum(gpuCompute, cpuCompute));
  const link = linkRates(hardware);
  const queues = {
    'gpu-compute': gpuCompute,
    'cpu-compute': cpuCompute,
    'host-to-device': times(1 / link.up, up),
    'device-to-host': times(1 / link.down, down),
    ...disk,
  };
  return {
    queues,
    bounds: [
      gpuCompute,
      ownWay,
      // Tasks are started while those before them run: a layer takes no longer for it, unless its work is less.
      { constant: squares * tasks },
      queues['host-to-device'],
      queues['device-to-host'],
      queues['disk-read'],
      queues['disk-write'],
      // Copies cross the host's memory, which attention on the CPU reads.
      sum(cpuCompute, times(memory, up), times(memory, down), times(memory, diskBytes)),
    ],
    ownWay,
  };
}
