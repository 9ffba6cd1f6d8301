import type { BlockCost, BlockSetting, CostModel } from '../../CostModel.js';
import { decodePhase } from './decode.js';
import { memoryTerms } from './memory.js';
import { prefillPhase } from './prefill.js';
import { symbolsOf } from './symbols.js';

/**
 * FlexGen's cost model as its code shipped it: the paper's appendix A.3 with the shipped constants, its sums where the
 * paper has a maximum, free (de)quantisation, and activations never on disk. Kept to compare with; see docs/papers.md
 * for where it errs.
 */
export const flexgenModel: CostModel = {
  name: 'flexgen',
  blocks: (setting) => [block(setting)],
  blockAt: (setting) => block(setting),
  schedules: ['zigzag'],
  // It knows attention where the cache is, and nothing else.
  cpuAttention: [true],
  shareStep: () => ({ weights: 0, cache: 0, activations: 0 }),
};

function block(setting: BlockSetting): BlockCost {
  const symbols = symbolsOf(setting);
  return {
    phases: [prefillPhase(symbols), decodePhase(symbols)],
    memory: memoryTerms(symbols),
    fixed: { hn: 0 },
    newTokens: symbols.bls * symbols.n,
    rows: symbols.bls,
    onceSeconds: 0,
  };
}
