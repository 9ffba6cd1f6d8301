import type { BlockCost, BlockSetting, CostModel } from '../CostModel.js';
import { costAt } from '../costAt.js';
import type { PlacementVector } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { roundPlacement } from './roundPlacement.js';
import { solvePlacement } from './solvePlacement.js';

/** A rounding that costs no more than this is good enough. */
const NEAR = 0.005;

/**
 * Placements that the runtime can make, near the optimum of a linear program. The cache moves in whole pages of a row,
 * which may be a tenth of it: where rounding costs much, the cache is settled at each of the page counts around the
 * optimum in turn, and weights and activations are placed anew beside it.
 */
export function* roundedPlacements(
  model: CostModel,
  setting: BlockSetting,
  cost: BlockCost,
  solved: { readonly placement: PlacementVector; readonly seconds: number },
  usable: Readonly<Record<Tier, number>>,
): Generator<PlacementVector> {
  const direct = roundPlacement(model, setting, solved.placement, usable);
  if (direct !== undefined) {
    yield direct;
    if (costAt(model.blockAt(setting, direct), direct).seconds <= solved.seconds * (1 + NEAR)) return;
  }
  const step = model.shareStep(setting).cache;
  if (step === 0) return;
  for (const shares of neighbours(solved.placement, step)) {
    const open = Object.entries(shares).every(
      ([key, share]) => (cost.fixed[key as keyof typeof shares] ?? share) === share,
    );
    if (!open) continue;
    const beside = solvePlacement({ ...cost, fixed: { ...cost.fixed, ...shares } }, usable);
    const placement =
      beside.status === 'optimal' ? roundPlacement(model, setting, beside.placement, usable) : undefined;
    if (placement !== undefined) yield placement;
  }
}

/**
 * Shares of the cache in whole steps next to those of a placement: up or down on the GPU, up or down on the CPU, the
 * rest on disk.
 */
function* neighbours({ cg, cc }: PlacementVector, step: number): Generator<Pick<PlacementVector, 'cg' | 'cc' | 'cn'>> {
  const around = (share: number): number[] => [
    ...new Set([Math.floor(share / step + 1e-6), Math.ceil(share / step - 1e-6)]),
  ];
  const all = Math.round(1 / step);
  for (const g of around(cg)) {
    for (const c of around(cc))
      if (g + c <= all) yield { cg: g * step, cc: c * step, cn: g + c === all ? 0 : 1 - (g + c) * step };
  }
}
