import { type BlockCost, type BlockSetting, type CostModel, costAt, overflows } from '../CostModel.js';
import { PLACEMENT_VARIABLES, type PlacementVariable, type PlacementVector } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
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

const TRIPLES = [
  { of: 'weights', keys: ['wg', 'wc', 'wn'] },
  { of: 'cache', keys: ['cg', 'cc', 'cn'] },
  { of: 'activations', keys: ['hg', 'hc', 'hn'] },
] as const;

/**
 * A placement that the runtime can make: whole steps of shares, rounded down on the scarcer tiers, what is left on the
 * lowest tier that is used. Where that overflows a tier after all (a fixed charge, a step too much), a step more goes
 * down, a few times.
 * @returns undefined if no rounding fits
 */
export function roundPlacement(
  model: CostModel,
  setting: BlockSetting,
  placement: PlacementVector,
  usable: Readonly<Record<Tier, number>>,
): PlacementVector | undefined {
  const steps = model.shareStep(setting);
  const rounded = { ...placement } as Record<PlacementVariable, number>;
  for (const { of, keys } of TRIPLES) {
    const step = steps[of];
    const [g, c, n] = keys;
    if (step === 0) continue;
    const lowest = rounded[n] > 1e-9 ? n : rounded[c] > 1e-9 ? c : g;
    for (const key of [g, c]) if (key !== lowest) rounded[key] = Math.floor(rounded[key] / step + 1e-6) * step;
    rounded[lowest] = 1 - keys.reduce((total, key) => total + (key === lowest ? 0 : rounded[key]), 0);
    if (rounded[lowest] < 1e-9) rounded[lowest] = 0;
  }
  for (let attempt = 0; attempt < 64; attempt++) {
    const over = overflows(costAt(model.blockAt(setting, rounded), rounded), usable)[0];
    if (over === undefined)
      return Object.fromEntries(
        PLACEMENT_VARIABLES.map((key) => [key, clean(rounded[key])]),
      ) as unknown as PlacementVector;
    if (!moveDown(rounded, over, steps, usable)) return undefined;
  }
  return undefined;
}

/** Moves one step of whatever can move from the tier that overflows to the next one below it. */
function moveDown(
  at: Record<PlacementVariable, number>,
  over: Tier,
  steps: ReturnType<CostModel['shareStep']>,
  usable: Readonly<Record<Tier, number>>,
): boolean {
  const [from, to] = over === 'gpu' ? [0, usable.cpu > 0 ? 1 : 2] : [1, 2];
  if (over === 'disk' || (to === 2 && usable.disk <= 0)) return false;
  for (const { of, keys } of TRIPLES) {
    const step = Math.max(steps[of], 1e-6);
    const [source, target] = [keys[from], keys[to]];
    // What does not spill at all is not made to: that is another setting, with charges of its own.
    if (source === undefined || target === undefined || at[source] < step || at[target] === 0) continue;
    at[source] -= step;
    at[target] += step;
    return true;
  }
  return false;
}

function clean(share: number): number {
  return Math.min(1, Math.max(0, Number(share.toFixed(12))));
}
