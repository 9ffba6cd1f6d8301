import { valueAt } from './Affine.js';
import type { BlockCost, CostAt } from './CostModel.js';
import type { PlacementVector } from './Placement.js';
import type { Tier } from '../engine/grid/Tier.js';

/** Evaluates a block's cost at a placement. */
export function costAt({ phases, memory, newTokens, onceSeconds }: BlockCost, placement: PlacementVector): CostAt {
  let [prefillSeconds, decodeSeconds] = [onceSeconds, 0];
  const queueSeconds: Record<string, number> = {};
  for (const { times, queues, bounds, promptShare } of phases) {
    const seconds = times * Math.max(...bounds.map((bound) => valueAt(bound, placement)));
    prefillSeconds += seconds * promptShare;
    decodeSeconds += seconds * (1 - promptShare);
    for (const [queue, term] of Object.entries(queues))
      queueSeconds[queue] = (queueSeconds[queue] ?? 0) + times * valueAt(term, placement);
  }
  const memoryBytes: Record<Tier, number> = { gpu: 0, cpu: 0, disk: 0 };
  for (const { tier, bytes } of memory) memoryBytes[tier] = Math.max(memoryBytes[tier], valueAt(bytes, placement));
  const seconds = prefillSeconds + decodeSeconds;
  return { seconds, prefillSeconds, decodeSeconds, tokensPerSecond: newTokens / seconds, queueSeconds, memoryBytes };
}

/** Names of the tiers that overflow. */
export function overflows(at: Pick<CostAt, 'memoryBytes'>, usable: Readonly<Record<Tier, number>>): Tier[] {
  // A part in a billion is rounding, not memory.
  return (Object.keys(at.memoryBytes) as Tier[]).filter((tier) => at.memoryBytes[tier] > usable[tier] * (1 + 1e-9) + 1);
}
