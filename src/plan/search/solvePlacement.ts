import { type Affine, leastValue, valueAt } from '../Affine.js';
import { type BlockCost, costAt } from '../CostModel.js';
import { PLACEMENT_VARIABLES, type PlacementVariable, type PlacementVector } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { type LinearProgram, solveLp } from './solveLp.js';

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
export function leastSeconds({ phases, fixed, onceSeconds, floors = {} }: BlockCost): number {
  const layers = phases.reduce(
    (total, { times, bounds }) => total + times * Math.max(...bounds.map((bound) => leastValue(bound, fixed))),
    onceSeconds,
  );
  return Math.max(layers, ...Object.values(floors).map((floor) => leastValue(floor, fixed)));
}

/** Seconds that the largest of all terms takes. */
function mostSeconds({ phases }: BlockCost): number {
  return phases.reduce(
    (most, { times, bounds }) =>
      Math.max(most, ...bounds.flatMap((bound) => Object.values(bound)).map((value) => times * value)),
    0,
  );
}

/**
 * Tells whether no tier overflows however things are placed, one tier looked at at a time: if not, no placement fits.
 */
export function mayFit({ memory, fixed }: BlockCost, usable: Readonly<Record<Tier, number>>): boolean {
  return memory.every(({ tier, bytes }) => leastValue(bytes, fixed) <= usable[tier] * (1 + 1e-9) + 1);
}

/**
 * The fastest placement of a block that fits (FlexGen, equation 1: nine shares). Solved again at a closer scale until
 * the time that comes out is of the size that it was scaled to.
 */
export function solvePlacement(cost: BlockCost, usable: Readonly<Record<Tier, number>>): PlacementOutcome {
  if (!mayFit(cost, usable)) return { status: 'infeasible' };
  // A model in which everything on the fastest tier takes no time has no scale in that.
  let scale = leastSeconds(cost) - cost.onceSeconds || Math.max(1e-12, mostSeconds(cost));
  // The machine's floors are rows of the program only where they are felt, as programs take long.
  let floors: BlockCost['floors'] = {};
  for (let round = 0; ; round++) {
    const { program, toPlacement } = placementProgram(cost, usable, scale, floors);
    const solved = solveLp(program);
    if (solved.status !== 'optimal') return { status: solved.status };
    const placement = toPlacement(solved.values);
    // The solver rounds: the time is computed from the placement.
    const { seconds } = costAt(cost, placement);
    if (
      floors !== cost.floors &&
      Object.values(cost.floors ?? {}).some((floor) => valueAt(floor, placement) >= seconds)
    ) {
      floors = cost.floors;
      continue;
    }
    const ratio = (seconds - cost.onceSeconds) / scale;
    if ((ratio <= 3 && ratio >= 0.3) || round >= 4)
      return { status: 'optimal', placement, seconds, degenerate: solved.degenerate };
    scale *= ratio * 1.5;
  }
}

/** The linear program of a placement, with what turns its solution back into shares. */
export interface PlacementProgram {
  readonly program: LinearProgram;
  readonly toPlacement: (values: readonly number[]) => PlacementVector;
}

/** Scaled coefficients below this are dropped: they can't move a share by as much as the solver's rounding. */
const NEGLIGIBLE = 1e-11;
const TRIPLES = [
  ['wg', 'wc', 'wn'],
  ['cg', 'cc', 'cn'],
  ['hg', 'hc', 'hn'],
] as const;

/**
 * States the placement of a block (FlexGen, equation 1) in numbers about 1. Raw bytes and seconds span twenty orders of
 * magnitude; so rows of memory are divided by the capacity and rows of time by `scaleSeconds`, and each share is
 * replaced by a multiple of itself such that its largest effect on any row is about 1.
 * @param scaleSeconds about the time that comes out
 */
export function placementProgram(
  { phases, memory, fixed, onceSeconds }: BlockCost,
  usable: Readonly<Record<Tier, number>>,
  scaleSeconds: number,
  floors: BlockCost['floors'] = {},
): PlacementProgram {
  const free = PLACEMENT_VARIABLES.filter((key) => fixed[key] === undefined);
  const at = (term: Affine): number =>
    PLACEMENT_VARIABLES.reduce((total, key) => total + (term[key] ?? 0) * (fixed[key] ?? 0), term.constant ?? 0);

  // Each row: Σ coefficient x share <= bound (+ time of a phase, or of all), all in units of the row's scale.
  interface ScaledRow {
    readonly of: Partial<Record<PlacementVariable, number>>;
    readonly constant: number;
    readonly phase: number | 'all' | undefined;
  }
  const rows: ScaledRow[] = [];
  for (const { tier, bytes } of memory) {
    const capacity = usable[tier];
    if (!Number.isFinite(capacity)) continue;
    const scale = 1 / Math.max(1, capacity);
    rows.push({ of: scaled(bytes, scale), constant: at(bytes) * scale - capacity * scale, phase: undefined });
  }
  phases.forEach(({ times, bounds }, phase) => {
    for (const bound of bounds) {
      const scale = times / scaleSeconds;
      rows.push({ of: scaled(bound, scale), constant: at(bound) * scale, phase });
    }
  });
  for (const floor of Object.values(floors)) {
    const scale = 1 / scaleSeconds;
    rows.push({ of: scaled(floor, scale), constant: (at(floor) - onceSeconds) * scale, phase: 'all' });
  }
  const unit = new Map(free.map((key) => [key, Math.min(1, ...rows.map(({ of }) => 1 / Math.abs(of[key] ?? 0)))]));

  // The last column, where there are floors, is the time that the machine takes beside that of the phases.
  const columns = free.length + phases.length + (Object.keys(floors).length > 0 ? 1 : 0);
  const linear = (of: ScaledRow['of'], phase: ScaledRow['phase']): number[] => {
    const coefficients = new Array<number>(columns).fill(0);
    free.forEach((key, j) => {
      const value = (of[key] ?? 0) * (unit.get(key) ?? 1);
      coefficients[j] = Math.abs(value) < NEGLIGIBLE ? 0 : value;
    });
    if (phase === 'all') coefficients.fill(-1, free.length);
    else if (phase !== undefined) coefficients[free.length + phase] = -1;
    return coefficients;
  };
  const program: LinearProgram = {
    objective: Array.from({ length: columns }, (_, j) => (j < free.length ? 0 : 1)),
    rows: [
      ...rows.map(({ of, constant, phase }) => ({
        coefficients: linear(of, phase),
        relation: '<=' as const,
        bound: -constant,
      })),
      ...TRIPLES.map((triple) => {
        const left = triple.reduce((total, key) => total - (fixed[key] ?? 0), 1);
        // In units of the largest share of the three, so that this row is about 1 too.
        const largest = Math.max(...triple.map((key) => unit.get(key) ?? 0));
        const of = Object.fromEntries(triple.map((key) => [key, 1 / (largest || 1)]));
        return { coefficients: linear(of, undefined), relation: '=' as const, bound: left / (largest || 1) };
      }),
    ],
  };
  return {
    program,
    toPlacement: (values) => {
      const vector = Object.fromEntries(PLACEMENT_VARIABLES.map((key) => [key, fixed[key] ?? 0])) as Record<
        PlacementVariable,
        number
      >;
      free.forEach((key, j) => (vector[key] = Math.min(1, (values[j] ?? 0) * (unit.get(key) ?? 1))));
      return normalised(vector, fixed);
    },
  };
}

function scaled(term: Affine, factor: number): Partial<Record<PlacementVariable, number>> {
  return Object.fromEntries(PLACEMENT_VARIABLES.map((key) => [key, (term[key] ?? 0) * factor]));
}

/** The solver's rounding out of the sums: what is missing or too much goes to the largest free share. */
function normalised(vector: Record<PlacementVariable, number>, fixed: BlockCost['fixed']): PlacementVector {
  for (const triple of TRIPLES) {
    const open = triple.filter((key) => fixed[key] === undefined);
    const largest = open.reduce<PlacementVariable | undefined>(
      (best, key) => (best === undefined || vector[key] > vector[best] ? key : best),
      undefined,
    );
    if (largest !== undefined) vector[largest] += 1 - triple.reduce((total, key) => total + vector[key], 0);
  }
  return vector;
}
