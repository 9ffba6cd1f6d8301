import type { ComputeProfile, HardwareProfile, OtherCompute } from './HardwareProfile.js';

/** How fast a machine is just now, over what its profile says: 1 is as fast, 0.5 half as fast. */
export interface MachineSpeed {
  /** Reading large blocks of memory. */
  readonly memory: number;
  /** Products of one row, which reading the weights bounds. */
  readonly fewRows: number;
  /** Products of 64 rows, which computing bounds. */
  readonly manyRows: number;
  /** Reading from disk. Default: as the profile says, because it was not looked at. */
  readonly disk?: number;
}

/** Rows of the products that the two speeds are of. */
export const SPEED_TOKENS = { fewRows: 1, manyRows: 64 } as const;

/**
 * The profile of a machine that is faster or slower than it says: products by the two speeds and, between 1 and 64
 * rows, by what lies between them; attention, quantising and tasks by that of the work that they are most like; the
 * disk by what reading from it is. A GPU is as it was. Pure.
 */
export function atSpeed(profile: HardwareProfile, speed: MachineSpeed): HardwareProfile {
  const { cpu, links, diskRequests } = profile;
  const { disk = 1 } = speed;
  return {
    ...profile,
    links: {
      ...links,
      ...(links.diskReadBytesPerSecond !== undefined && {
        diskReadBytesPerSecond: links.diskReadBytesPerSecond * disk,
      }),
      ...(links.diskWriteBytesPerSecond !== undefined && {
        diskWriteBytesPerSecond: links.diskWriteBytesPerSecond * disk,
      }),
    },
    ...(diskRequests && {
      diskRequests: diskRequests.map((each) => ({ ...each, bytesPerSecond: each.bytesPerSecond * disk })),
    }),
    cpu: {
      ...cpu,
      ...computeAtSpeed(cpu, speed),
      memoryBytesPerSecond: cpu.memoryBytesPerSecond * speed.memory,
      ...(cpu.memoryCopyBytesPerSecond !== undefined && {
        memoryCopyBytesPerSecond: cpu.memoryCopyBytesPerSecond * speed.memory,
      }),
      quantiseValuesPerSecond: cpu.quantiseValuesPerSecond * speed.manyRows,
      dequantiseValuesPerSecond: cpu.dequantiseValuesPerSecond * speed.manyRows,
      ...(cpu.rowOperationsPerSecond !== undefined && {
        rowOperationsPerSecond: cpu.rowOperationsPerSecond * speed.manyRows,
      }),
      sampleLogitsPerSecond: cpu.sampleLogitsPerSecond * speed.manyRows,
      ...(cpu.sampleTopPLogitsPerSecond !== undefined && {
        sampleTopPLogitsPerSecond: cpu.sampleTopPLogitsPerSecond * speed.manyRows,
      }),
      taskSeconds: cpu.taskSeconds / speed.manyRows,
      ...(cpu.oneThread && { oneThread: { ...cpu.oneThread, ...computeAtSpeed(cpu.oneThread, speed) } }),
      ...(cpu.oneThreadACore && {
        oneThreadACore: { ...cpu.oneThreadACore, ...computeAtSpeed(cpu.oneThreadACore, speed) },
      }),
      ...(cpu.otherInstructionSets && {
        otherInstructionSets: cpu.otherInstructionSets.map((each) => ({ ...each, ...computeAtSpeed(each, speed) })),
      }),
    },
  };
}

/** The figures of products and attention by the two speeds of products. */
export function computeAtSpeed(
  { matmul, attention }: Pick<ComputeProfile | OtherCompute, 'matmul' | 'attention'>,
  { fewRows, manyRows }: Pick<MachineSpeed, 'fewRows' | 'manyRows'>,
): Pick<ComputeProfile, 'matmul' | 'attention'> {
  return {
    matmul: matmul.map((point) => {
      const part = Math.min(
        1,
        Math.max(
          0,
          Math.log(point.tokens / SPEED_TOKENS.fewRows) / Math.log(SPEED_TOKENS.manyRows / SPEED_TOKENS.fewRows),
        ),
      );
      return { ...point, flopsPerSecond: point.flopsPerSecond * fewRows ** (1 - part) * manyRows ** part };
    }),
    attention: {
      prefillFlopsPerSecond: attention.prefillFlopsPerSecond * manyRows,
      decodeBytesPerSecond: attention.decodeBytesPerSecond * manyRows,
      ...(attention.rowHeadsPerSecond !== undefined && { rowHeadsPerSecond: attention.rowHeadsPerSecond * manyRows }),
      ...(attention.decode && {
        decode: attention.decode.map((point) => ({ ...point, bytesPerSecond: point.bytesPerSecond * manyRows })),
      }),
    },
  };
}
