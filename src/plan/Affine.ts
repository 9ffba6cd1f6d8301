import { PLACEMENT_VARIABLES, type PlacementVariable, type PlacementVector } from './Placement.js';

/**
 * A quantity that is linear in the nine placement variables: seconds of a queue, bytes of a tier. An absent coefficient
 * is 0.
 */
export type Affine = Readonly<Partial<Record<PlacementVariable | 'constant', number>>>;

const KEYS = [...PLACEMENT_VARIABLES, 'constant'] as const;

export function sum(...terms: readonly Affine[]): Affine {
  const total: Partial<Record<PlacementVariable | 'constant', number>> = {};
  for (const term of terms) {
    for (const key of KEYS) {
      const value = term[key];
      if (value !== undefined && value !== 0) total[key] = (total[key] ?? 0) + value;
    }
  }
  return total;
}

export function times(factor: number, term: Affine): Affine {
  const result: Partial<Record<PlacementVariable | 'constant', number>> = {};
  for (const key of KEYS) {
    const value = term[key];
    if (value !== undefined) result[key] = value * factor;
  }
  return result;
}

export function valueAt(term: Affine, at: PlacementVector): number {
  let total = term.constant ?? 0;
  for (const key of PLACEMENT_VARIABLES) {
    const value = term[key];
    if (value !== undefined) total += value * at[key];
  }
  return total;
}

const TRIPLES = [
  ['wg', 'wc', 'wn'],
  ['cg', 'cc', 'cn'],
  ['hg', 'hc', 'hn'],
] as const;

/**
 * The least value over all placements that keep `fixed`, memory ignored: each triple of shares sums to 1, so the
 * cheapest tier has it all.
 */
export function leastValue(term: Affine, fixed: Readonly<Partial<Record<PlacementVariable, number>>>): number {
  let total = term.constant ?? 0;
  for (const triple of TRIPLES) {
    let left = 1;
    let cheapest = Infinity;
    for (const key of triple) {
      const given = fixed[key];
      if (given === undefined) cheapest = Math.min(cheapest, term[key] ?? 0);
      else {
        left -= given;
        total += given * (term[key] ?? 0);
      }
    }
    if (left > 1e-12 && cheapest < Infinity) total += left * cheapest;
  }
  return total;
}
