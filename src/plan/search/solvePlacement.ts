import { leastValue } from '../Affine.js';
import type { BlockCost } from '../CostModel.js';
import { costAt } from '../costAt.js';
import type { PlacementVector } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { placementProgram } from './placementProgram.js';
import { solveLp } from './solveLp.js';

export type PlacementOutcome =
  | {
      readonly status: 'optimal';
      readonly placement: PlacementVector;
      readonly seconds: number;
      readonly degenerate: boolean;
    }
  | { readonly status: 'infeasible' }
  | { readonly status: 'unbounded' };

/** Seconds that the block takes at least, memory ignored. */
export function leastSeconds({ phases, fixed, onceSeconds }: BlockCost): number {
  return phases.reduce(
    (total, { times, bounds }) => total + times * Math.max(...bounds.map((bound) => leastValue(bound, fixed))),
    onceSeconds,
  );
}

/** Whether no tier overflows however things are placed, one tier looked at at a time: if not, no placement fits. */
export function mayFit({ memory, fixed }: BlockCost, usable: Readonly<Record<Tier, number>>): boolean {
  return memory.every(({ tier, bytes }) => leastValue(bytes, fixed) <= usable[tier] * (1 + 1e-9) + 1);
}

/**
 * The fastest placement of a block that fits (FlexGen, equation 1: nine shares). Solved again at a closer scale until
 * the time that comes out is of the size that it was scaled to.
 */
export function solvePlacement(cost: BlockCost, usable: Readonly<Record<Tier, number>>): PlacementOutcome {
  if (!mayFit(cost, usable)) return { status: 'infeasible' };
  let scale = Math.max(1e-12, leastSeconds(cost) - cost.onceSeconds);
  for (let round = 0; ; round++) {
    const { program, placementOf } = placementProgram(cost, usable, scale);
    const solved = solveLp(program);
    if (solved.status !== 'optimal') return { status: solved.status };
    const placement = placementOf(solved.values);
    // The solver rounds: the time is computed from the placement.
    const { seconds } = costAt(cost, placement);
    const ratio = (seconds - cost.onceSeconds) / scale;
    if ((ratio <= 3 && ratio >= 0.3) || round >= 4)
      return { status: 'optimal', placement, seconds, degenerate: solved.degenerate };
    scale *= ratio * 1.5;
  }
}
