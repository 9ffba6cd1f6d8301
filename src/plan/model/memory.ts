import { sum } from '../Affine.js';
import type { BlockSetting, MemoryTerm } from '../CostModel.js';
import { cacheValues } from '../ModelShape.js';
import type { PlacementVector } from '../Placement.js';
import { hostShare, refillsAtOnce, slotsOf, tokensPerSquareOf } from '../Policy.js';
import type { Sizes } from './sizes.js';
import { matmulKind } from './matmulKinds.js';
import { workingMemory } from './workingMemory.js';
import { HEAP_MARGIN_BYTES, inDiskBlocks, PAGE_TOKENS, PINNED_BYTES, SPILL_BUFFERS, SPILL_RUNS } from '../reserves.js';
import { valuesRead } from './chosenValues.js';

/** Norms and biases of a layer, as wide as hidden states, at most. */
const VECTORS = 4;
/** Layers' weights that are where computing happens at once while they move. */
const BUFFERS = 2;
/** The tokens of prompts that have room on a GPU as halves, which attention reads, where caches are compressed. */
const HALVED_TOKENS = 4096;
/** Where pages come to a GPU, room for those of a row that is so long, however short most are. */
const LONG_ROW_TOKENS = 4096;

/** Which of the charges apply that do not depend on how much is on disk, only on whether anything is. */
export interface Charges {
  /** Weights stream from disk: the repacked file holds all of them. */
  readonly streams: boolean;
  /** Cache spills to disk: every row keeps a page in memory to write to. */
  readonly spills: boolean;
}

/**
 * Bytes that the pools of each tier reserve.
 * @param at the placement where it is settled: whole pages and blocks are counted then. Undefined: linear in the
 * shares, for a program to solve
 */
export function memoryTerms(
  setting: BlockSetting,
  sizes: Sizes,
  liveRows: number,
  charges: Charges,
  at?: PlacementVector,
): MemoryTerm[] {
  return setting.hardware.memory.gpuBytes > 0
    ? withGpu(setting, sizes, liveRows, charges)
    : onCpu(setting, sizes, liveRows, charges, at);
}

function onCpu(
  { hardware, shape, workload: { cachePages = Infinity }, block }: BlockSetting,
  sizes: Sizes,
  liveRows: number,
  { streams, spills }: Charges,
  at: PlacementVector | undefined,
): MemoryTerm[] {
  const { layerWeightBytes: w, globalWeightBytes, tokenActivationBytes, rowPages, sharedPages, pageBytes } = sizes;
  const buffered = BUFFERS * sizes.largestLayerWeightBytes;
  const { layers: l } = shape;
  const slots = slotsOf(block);
  const states = slots * block.batchSize * sizes.rowStateBytes;
  const tokens = Math.max(tokensPerSquareOf(block), block.batchSize);
  // What all rows begin with is in memory. Of a row's own pages all but the last may be on disk, in whole pages; hidden
  // states in whole tokens, with room for several runs.
  const ownPages = rowPages - sharedPages;
  const diskPages = at ? Math.min(ownPages - 1, Math.round(ownPages * at.cn)) : undefined;
  const { scratchBytes, activationBytes } = workingMemory(
    shape,
    tokens,
    block.threads ?? hardware.cpu.threads,
    matmulKind(shape, block.compressWeights),
    hardware.machine.instructionSet,
    { ...block, spills: spills && diskPages !== 0 },
  );
  const layerPageBytes = sizes.tokenCacheBytes * PAGE_TOKENS;
  const slotBytes = inDiskBlocks(layerPageBytes) * (pageBytes / layerPageBytes);
  const keptTokens = at ? Math.round(tokens * (1 - at.hn)) : tokens;
  const hiddenSpills = keptTokens < tokens;
  // With pages on disk a square's new keys and values stand beside its hidden states.
  const fresh = spills && diskPages !== 0 ? freshBytes(shape, tokens) : 0;
  const hidden =
    (activationBytes + fresh) * (hiddenSpills ? Math.min(SPILL_BUFFERS, slots + 1) : slots) +
    (hiddenSpills ? slots * keptTokens * tokenActivationBytes : 0);
  // Shares are rounded to a thousandth, norms and biases are resident whatever they are, and pages are whole: a block
  // that lacks one for its last row is two, and reads the weights twice.
  const rounding = streams ? pageBytes + l * (w / 2000 + VECTORS * shape.hiddenSize * 4) : 0;
  const fixed = HEAP_MARGIN_BYTES + globalWeightBytes + scratchBytes + hidden + rounding + states;
  const weights = { wc: w * l, wn: buffered };
  const store = streams ? w * l + globalWeightBytes : 0;
  // As much again for values that sparse attention has chosen.
  const { keyShare } = valuesRead({ hardware, shape, block });
  const staging = (keyShare < 1 ? 2 : 1) * SPILL_BUFFERS * block.batchSize * inDiskBlocks(layerPageBytes);
  const hiddenOnDisk = hiddenSpills
    ? SPILL_RUNS * slots * inDiskBlocks((tokens - keptTokens) * tokenActivationBytes)
    : 0;
  if (diskPages !== undefined) {
    const cache =
      Math.min(sharedPages + liveRows * (ownPages - diskPages), cachePages) * pageBytes + staging * diskPages;
    return [
      { tier: 'cpu', when: 'run', bytes: { ...weights, constant: fixed + cache } },
      { tier: 'disk', when: 'run', bytes: { constant: store + hiddenOnDisk + liveRows * diskPages * slotBytes } },
    ];
  }
  const inMemory = fixed + sharedPages * pageBytes;
  const staged = { cn: staging * ownPages };
  return [
    {
      tier: 'cpu',
      when: 'run',
      bytes: { ...weights, ...staged, constant: inMemory, cc: liveRows * ownPages * pageBytes },
    },
    ...(spills
      ? [
          {
            tier: 'cpu' as const,
            when: 'a page of each row',
            bytes: { ...weights, ...staged, constant: inMemory + liveRows * pageBytes },
          },
        ]
      : []),
    { tier: 'disk', when: 'run', bytes: { constant: store, cn: liveRows * ownPages * slotBytes } },
  ];
}

/** Keys and values of a square's tokens, in 32 bits. */
function freshBytes(shape: BlockSetting['shape'], tokens: number): number {
  return tokens * cacheValues(shape) * 4;
}

function withGpu(
  { hardware, shape, block }: BlockSetting,
  sizes: Sizes,
  liveRows: number,
  { streams, spills }: Charges,
): MemoryTerm[] {
  const { layerWeightBytes: w, globalWeightBytes, tokenActivationBytes, rowPages, sharedPages, pageBytes } = sizes;
  const buffered = BUFFERS * sizes.largestLayerWeightBytes;
  const { layers: l } = shape;
  const slots = slotsOf(block);
  const tokens = tokensPerSquareOf(block);
  const { scratchBytes, activationBytes } = workingMemory(
    shape,
    tokens,
    block.threads ?? hardware.cpu.threads,
    matmulKind(shape, 'none'),
    hardware.machine.instructionSet,
    undefined,
  );
  const cache = (sharedPages + liveRows * (rowPages - sharedPages)) * pageBytes;
  // Staged pages of two batches, of one layer; on the GPU of one long row at least.
  const staging = (BUFFERS * Math.min(liveRows, block.batchSize) * rowPages * pageBytes) / l;
  const leastStaging =
    (BUFFERS * Math.ceil(Math.min(LONG_ROW_TOKENS, shape.contextTokens) / PAGE_TOKENS) * pageBytes) / l;
  const hidden = slots * tokens * tokenActivationBytes;
  const store = w * l + globalWeightBytes;
  const tails = spills ? liveRows * pageBytes : 0;
  // What all rows begin with is never on disk: where pages come to the GPU rows share it, in the host's memory.
  const byHost = hostShare(block);
  const sharedInHost = byHost > 0 ? 0 : sharedPages * pageBytes;
  // Values are 16-bit on the GPU; the native runtime's of the CPU are 32-bit.
  const working = (scratchBytes + activationBytes * (slots > 1 ? 2 : 1)) / 2;
  const halves =
    block.compressCache === 'none' ? 0 : freshBytes(shape, Math.min(HALVED_TOKENS, shape.contextTokens)) / 2;
  const onGpu = {
    constant: globalWeightBytes + working + halves,
    wg: w * l,
    wc: buffered,
    wn: buffered,
    cg: cache,
    hg: hidden,
  };
  const moved = byHost === 1 ? [0] : [(1 - byHost) * staging, (1 - byHost) * leastStaging];
  return [
    ...moved.map((bytes) => ({
      tier: 'gpu' as const,
      when: 'run',
      bytes: bytes === 0 ? onGpu : sum(onGpu, { cc: bytes, cn: bytes }),
    })),
    {
      tier: 'cpu',
      when: 'run',
      bytes: {
        // Of weights that stream more is pinned, of what nobody else needs.
        constant: HEAP_MARGIN_BYTES + PINNED_BYTES + tails,
        wc: w * l,
        wn: buffered,
        cc: cache,
        cn: staging + sharedInHost,
        hc: hidden,
        hn: hidden / slots,
      },
    },
    { tier: 'disk', when: 'run', bytes: { constant: streams ? store : 0, cn: cache - sharedInHost, hn: hidden } },
  ];
}

/**
 * Gives the bytes that a run takes beyond what it needs where there is room: rows that have ended hold their pages
 * until their last squares are through, when those that take their places have come in, a square's worth of prompts in
 * each slot. What is on disk has room for no more rows than were planned, and neither has the cache beside weights that
 * stream.
 */
export function overlapBytes(
  { workload, block, hardware }: BlockSetting,
  { rowPages, sharedPages, pageBytes }: Sizes,
  liveRows: number,
  rows: number,
  { wn, cn }: PlacementVector,
): number {
  if (!refillsAtOnce(block) || hardware.memory.gpuBytes > 0 || wn > 0 || cn > 0) return 0;
  const perRow = Math.min(rowPages, Math.ceil(workload.promptTokens / PAGE_TOKENS)) - sharedPages;
  const rowsOfSquares =
    (slotsOf(block) * tokensPerSquareOf(block)) / (workload.promptTokens - (workload.sharedPrefixTokens ?? 0));
  return Math.min(liveRows, Math.max(0, rows - liveRows), rowsOfSquares) * perRow * pageBytes;
}
