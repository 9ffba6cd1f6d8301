import { sum } from '../../Affine.js';
import type { MemoryTerm } from '../../CostModel.js';
import type { Symbols } from './symbols.js';

/**
 * Peaks of the three tiers in prefill and decode, working memory included (FlexGen, appendix A.3, with the shipped
 * code's working terms).
 */
export function memoryTerms({ l, s, n, h1, h2, nh, gbs, bls, w, kv }: Symbols): MemoryTerm[] {
  const cache = 4 * (s + n) * h1 * bls * l * kv;
  const staged = (
    weights: number,
    share: 'wg' | 'wn',
    factor: number,
  ): { constant?: number; wg?: number; wn?: number } =>
    share === 'wg' ? { constant: factor * weights, wg: -factor * weights } : { wn: factor * weights };
  const gpuPrefill = sum(
    { wg: w * l, hg: 2 * s * h1 * bls, cg: cache },
    staged(w, 'wg', 2),
    { constant: 2 * s * h1 * gbs, hg: -2 * s * h1 * gbs },
    { constant: gbs * (18 * s * h1 + 2 * nh * s * s + 2 * s * h2) },
  );
  const gpuDecode = sum(
    { wg: w * l, hg: 2 * h1 * bls, cg: cache },
    staged(w, 'wg', 2),
    { constant: 2 * h1 * gbs, hg: -2 * h1 * gbs },
    { cg: 4 * gbs * (s + n) * h1 },
    { constant: gbs * (14 * h1 + 2 * h2), cg: gbs * (4 * h1 + 4 * (s + n) * h1 + 2 * nh * (s + n)) },
  );
  const cpuPrefill = sum({ wc: w * l, hc: 2 * s * h1 * bls, cc: 4 * s * h1 * bls * l * kv }, staged(w, 'wg', 1), {
    constant: 2 * s * h1 * gbs,
    hg: -2 * s * h1 * gbs,
  });
  const cpuDecode = sum({ wc: w * l, hc: 2 * h1 * bls, cc: cache }, staged(w, 'wn', 1), {
    hn: 4 * h1 * gbs,
    cn: 8 * (s + n) * h1 * gbs,
    constant: 2 * nh * (s + n) * gbs + 2 * h1 * gbs,
  });
  return [
    { tier: 'gpu', when: 'prefill', bytes: gpuPrefill },
    { tier: 'gpu', when: 'decode', bytes: gpuDecode },
    { tier: 'cpu', when: 'prefill', bytes: cpuPrefill },
    { tier: 'cpu', when: 'decode', bytes: cpuDecode },
    { tier: 'disk', when: 'always', bytes: { wn: w * l, hn: 2 * s * h1 * bls, cn: cache } },
  ];
}
