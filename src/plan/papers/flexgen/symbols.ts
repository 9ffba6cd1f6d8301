import type { BlockSetting } from '../../CostModel.js';
import type { FlexgenConstants } from '../../HardwareProfile.js';
import { slotsOf } from '../../Policy.js';
import { UsageError } from '../../../errors/UsageError.js';

/** FlexGen's symbols (its tables 7 and 8) for one setting. Bytes are those of 16-bit values unless compressed. */
export interface Symbols {
  /** Layers, prompt tokens, new tokens, hidden size, inner size, heads. */
  readonly l: number;
  readonly s: number;
  readonly n: number;
  readonly h1: number;
  readonly h2: number;
  readonly nh: number;
  /** Rows of one batch, and of the block. */
  readonly gbs: number;
  readonly bls: number;
  /** Bytes of one layer's weights as stored, and as multiplied (2 operations a weight: also the operations a token). */
  readonly w: number;
  readonly flops: number;
  /** The share that compression leaves of each byte of the cache. */
  readonly kv: number;
  readonly of: FlexgenConstants;
}

export function symbolsOf({ hardware, shape, workload, block }: BlockSetting): Symbols {
  const of = hardware.flexgen;
  if (of === undefined)
    throw new UsageError(
      `hardware ${JSON.stringify(hardware.name)} has no constants of FlexGen's cost model: take the built-in flexgen-t4, or another \`costModel\``,
    );
  const { hiddenSize: h1, feedForwardSize: h2, heads: nh, layers: l } = shape;
  const flops = 8 * h1 * h1 + 4 * h1 * h2;
  const quarter = (compression: string): number => (compression === 'none' ? 1 : compression === '8bit' ? 0.5 : 0.25);
  return {
    l,
    s: workload.promptTokens,
    n: workload.newTokens,
    h1,
    h2,
    nh,
    gbs: block.batchSize,
    bls: block.batchSize * slotsOf(block),
    w: flops * quarter(block.compressWeights),
    flops,
    kv: quarter(block.compressCache),
    of,
  };
}
