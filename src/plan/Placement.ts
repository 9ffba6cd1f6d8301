import type { Tier } from '../engine/grid/Tier.js';

/** The shares of something that live on each tier; the shares sum to 1. */
export type TierShares = Readonly<Record<Tier, number>>;

/**
 * FlexGen's nine variables: what share of weights, KV cache and activations (hidden states between layers) lives where.
 */
export interface PlacementShares {
  readonly weights: TierShares;
  readonly cache: TierShares;
  readonly activations: TierShares;
}

/** The papers' names: w, c, h for weights, cache, hidden states; g, c, n for GPU, CPU, NVMe. */
export const PLACEMENT_VARIABLES = ['wg', 'wc', 'wn', 'cg', 'cc', 'cn', 'hg', 'hc', 'hn'] as const;
export type PlacementVariable = (typeof PLACEMENT_VARIABLES)[number];
export type PlacementVector = Readonly<Record<PlacementVariable, number>>;

export function vectorOf({ weights: w, cache: c, activations: h }: PlacementShares): PlacementVector {
  return { wg: w.gpu, wc: w.cpu, wn: w.disk, cg: c.gpu, cc: c.cpu, cn: c.disk, hg: h.gpu, hc: h.cpu, hn: h.disk };
}

export function sharesOf(v: PlacementVector): PlacementShares {
  return {
    weights: { gpu: v.wg, cpu: v.wc, disk: v.wn },
    cache: { gpu: v.cg, cpu: v.cc, disk: v.cn },
    activations: { gpu: v.hg, cpu: v.hc, disk: v.hn },
  };
}
