import { refillsAtOnce, type BlockChoice, type Policy } from '../Policy.js';
import type { BlockSetting, CostModel } from '../CostModel.js';
import { costAt, overflows } from '../costAt.js';
import { vectorOf } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { paced } from '../model/paced.js';
import type { RankedPolicy, SearchSpace } from './SearchSpace.js';

/** Rows and batches that are tried where they are open. */
const SIZES = [8, 16, 32, 64, 128, 256];
const COUNTS = [1, 2, 4];
/** Shares of the weights that are left on disk to make room for the cache. */
const ON_DISK = [0, 0.25, 0.5, 0.75, 1];
/** Places for so many times the rows that memory lets live at once: more of them would stay empty. */
const ROOMY = 1.5;
const inMemory = { gpu: 0, cpu: 1, disk: 0 };

/**
 * Diagonal blocks that memory does not hold wholly: rows come in as pages come free (`paced`). The linear program knows
 * only blocks whose rows all fit at their full length; where layers stream, every further row in a pass shares the
 * reading, and rows of all ages take less. Pure.
 */
export function pacedPolicies(
  model: CostModel,
  base: Omit<BlockSetting, 'block'>,
  kind: Omit<BlockChoice, 'batchSize' | 'batches'>,
  space: Pick<SearchSpace, 'batchSizes' | 'batchCounts' | 'mostBatchSize' | 'mostBatches'>,
  usable: Readonly<Record<Tier, number>>,
): RankedPolicy[] {
  if (!refillsAtOnce(kind)) return [];
  const found: RankedPolicy[] = [];
  for (const batches of space.batchCounts ?? COUNTS.filter((count) => count <= space.mostBatches)) {
    for (const disk of usable.disk > 0 ? ON_DISK : [0]) {
      for (const batchSize of space.batchSizes ?? SIZES.filter((size) => size <= space.mostBatchSize)) {
        const policy: Policy = {
          ...kind,
          batchSize,
          batches,
          weights: { gpu: 0, cpu: 1 - disk, disk },
          cache: inMemory,
          activations: inMemory,
        };
        const placement = vectorOf(policy);
        const setting = paced(model, { ...base, block: { ...kind, batchSize, batches } }, placement, usable.cpu);
        if (setting === undefined) continue;
        const at = costAt(model.blockAt(setting, placement), placement);
        if (overflows(at, usable).length === 0) found.push({ policy, at });
        const { admittedPerSweep = 0, newTokens } = setting.workload;
        if (batchSize * batches > ROOMY * admittedPerSweep * newTokens) break;
      }
    }
  }
  return found;
}
