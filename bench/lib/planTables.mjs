// What the tables of docs/papers.md have in common.
import { parsePolicy } from '../../dist/api/plan.js';

/** wG wC cG cC hG hC in percent; the rest is on disk. */
export function policyOf(batchSize, batches, [wg, wc, cg, cc, hg, hc], more = {}) {
  const shares = (gpu, cpu) => ({ gpu: gpu / 100, cpu: cpu / 100, disk: 1 - gpu / 100 - cpu / 100 });
  return parsePolicy(
    {
      schedule: 'zigzag',
      batchSize,
      batches,
      weights: shares(wg, wc),
      cache: shares(cg, cc),
      activations: shares(hg, hc),
      ...more,
    },
    'table',
  );
}

export const table = (head, rows) =>
  [head, head.map(() => '-'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
export const figure = (value) => (value >= 10 ? value.toFixed(1) : value.toPrecision(3));
export const off = (value, measured, unit = '') =>
  `${figure(value)}${unit} (${value >= measured ? '+' : ''}${Math.round((value / measured - 1) * 100)}%)`;
