// Sizes what is measured to the machine: of a shape as many layers as disk and memory have room for, and of rows as
// many as can be waited for.
import { statfs } from 'node:fs/promises';
import { freemem } from 'node:os';
import { optBytes } from './optShapes.mjs';

/** What is left to others. */
const DISK_SHARE = 0.9;
const MEMORY_SHARE = 0.9;
/** Of the processor's memory, what weights may take at most: the rest is for keys and values. */
const WEIGHTS_SHARE = 0.7;
/** Of the GPU's, what can be counted on for weights. */
const GPU_WEIGHTS_SHARE = 0.5;
/** File systems whose files are in memory (statfs(2)): tmpfs, ramfs. */
const MEMORY_FILE_SYSTEMS = [0x01021994, 0x858458f6];

/**
 * Bytes that this process may take, and that are free where a folder is; `shared`: the folder's files are in memory
 * themselves.
 */
export async function roomOf(folder) {
  const { bavail, bsize, type } = await statfs(folder);
  return {
    memoryBytes: process.availableMemory?.() ?? freemem(),
    diskBytes: bavail * bsize,
    shared: MEMORY_FILE_SYSTEMS.includes(type),
  };
}

/**
 * The caps of a run: what was asked for, or what the machine has; half of it where the model's files take memory, too.
 */
export function capsOf({ memoryBytes, shared = false }, { gpuBytes, cpuBytes }) {
  return { gpuBytes, cpuBytes: Math.min(cpuBytes, Math.floor((memoryBytes * MEMORY_SHARE) / (shared ? 2 : 1))) };
}

/**
 * Layers of a shape that fit: their file on the disk, and, beside some cache, what of them is not on the GPU in memory.
 * 0: not even one does.
 */
export function layersThatFit(shape, { diskBytes, shared = false }, { gpuBytes, cpuBytes }) {
  const { layer, global } = optBytes(shape);
  const onDisk = ((shared ? Math.min(diskBytes, cpuBytes) : diskBytes) * DISK_SHARE - global) / layer;
  const inMemory = (cpuBytes * WEIGHTS_SHARE + gpuBytes * GPU_WEIGHTS_SHARE - global) / layer;
  return Math.max(0, Math.min(shape.layers, Math.floor(Math.min(onDisk, inMemory))));
}

/**
 * Rows that are generated in `wanted` seconds by the plan's own word, in whole blocks; one block where it takes longer,
 * and a part of one where it takes more than `most` seconds. 1 at least.
 */
export function rowsInTime({ policy, predicted }, newTokens, wanted, most) {
  const block = policy.batchSize * policy.batches;
  const within = (seconds) => Math.floor((predicted.tokensPerSecond * seconds) / newTokens);
  if (within(most) < block) return Math.max(1, within(most));
  return Math.max(1, Math.floor(within(Math.min(wanted, most)) / block)) * block;
}
