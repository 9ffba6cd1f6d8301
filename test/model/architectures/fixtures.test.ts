import { describe, expect, test } from '@jest/globals';
import { fixtureModels } from '../../support/model/fixtureModels.js';
import { PlainDecoder } from '../../support/model/PlainDecoder.js';
import { tries } from '../../support/tries.js';

/**
 * float32 there against float64 here; a GELU of the other kind moves logits by 1e-3, a wrong epsilon by 1e-4. The
 * random blocks of K types in GGUF files make larger sums.
 */
const TOLERANCES = { safetensors: 5e-5, gguf: 2e-4 };

// Specs and bindings mean what transformers computes: run by a plain decoder, without the addon. By day one row of
// every third model; e2e/architectures has the addon compute all rows of all of them.
describe('each tiny model computes what transformers does', () => {
  for (const model of fixtureModels.filter((_, nth) => nth % tries(3, 1) === 0)) {
    test(model.name, async () => {
      await model.use((source) => {
        const decoder = new PlainDecoder(source);
        const tolerance = TOLERANCES[source.format];
        for (const row of model.rows.slice(0, tries(1, model.rows.length))) {
          const text = [...row.tokens, ...row.greedy];
          const all = decoder.logits(text);
          const last = all[row.tokens.length - 1];
          row.logits?.forEach((logit, id) => expect(Math.abs(logit - (last?.[id] ?? NaN))).toBeLessThan(tolerance));
          row.scores.forEach((score, i) =>
            expect(Math.abs(score - logProbability(all[i], text[i + 1]))).toBeLessThan(tolerance),
          );
          row.greedy.forEach((id, step) => {
            if ((row.margins[step] ?? 0) > 2 * tolerance) expect(argMax(all[row.tokens.length - 1 + step])).toBe(id);
          });
        }
      });
    });
  }
});

function logProbability(logits: Float64Array | undefined, token: number | undefined): number {
  const most = Math.max(...(logits ?? []));
  const total = (logits ?? new Float64Array()).reduce((all, logit) => all + Math.exp(logit - most), 0);
  return (logits?.[token ?? -1] ?? NaN) - most - Math.log(total);
}

function argMax(logits: Float64Array | undefined): number {
  return logits?.indexOf(Math.max(...logits)) ?? -1;
}
