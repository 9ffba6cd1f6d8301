import type { CostModel, BlockSetting } from '../CostModel.js';
import { costAt, overflows } from '../costAt.js';
import { PLACEMENT_VARIABLES, type PlacementVariable, type PlacementVector } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';

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
