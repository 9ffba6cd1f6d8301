import { UsageError } from '../../../errors/UsageError.js';
import type { BlockCost, BlockSetting, CostModel, MemoryTerm } from '../../CostModel.js';
import { lmDecode, lmPrefill, lmSymbols, type LmSymbols } from './phases.js';

/**
 * LM-Offload's model (its equations 1 to 24): FlexGen's six tasks, with (de)quantisation in the tasks that spend it,
 * and with what the GPU's memory takes, which the paper leaves out: no layer is faster than its weights are read.
 * Throughput leaves the start out (T_init), as the paper's figures do.
 */
export const lmOffloadModel: CostModel = {
  name: 'lm-offload',
  blocks: (setting) => [block(setting)],
  blockAt: (setting) => block(setting),
  schedules: ['zigzag'],
  shareStep: () => ({ weights: 0.01, cache: 0, activations: 0 }),
};

function symbols(setting: BlockSetting): LmSymbols {
  const { hardware } = setting;
  if (hardware.lmOffload === undefined) {
    throw new UsageError(
      `hardware ${JSON.stringify(hardware.name)} has no features for LM-Offload's cost model: take the built-in lm-offload-a100, or another \`costModel\``,
    );
  }
  return lmSymbols(setting, hardware.lmOffload);
}

function block(setting: BlockSetting): BlockCost {
  const of = symbols(setting);
  return {
    phases: [lmPrefill(of), lmDecode(of)],
    memory: memory(setting, of),
    fixed: { wn: 0, cn: 0, hn: 0 },
    newTokens: of.bls * of.n,
    rows: of.bls,
    onceSeconds: 0,
  };
}

/** Lists what stays where, plus two layers of weights and one batch's values under way on the GPU. */
function memory(
  { block: { batchSize } }: BlockSetting,
  { l, s, n, h1, bls, weights, weightBytes, cacheBytes }: LmSymbols,
): MemoryTerm[] {
  const layer = weights * weightBytes;
  const cache = 2 * (s + n) * h1 * bls * l * cacheBytes;
  const working = batchSize * s * h1 * 2 * 6;
  return [
    {
      tier: 'gpu',
      when: 'run',
      bytes: { constant: working, wg: layer * l, wc: 2 * weights * 2, cg: cache, hg: 2 * h1 * bls },
    },
    { tier: 'cpu', when: 'run', bytes: { wc: layer * l, cc: cache, hc: 2 * s * h1 * bls } },
  ];
}
