// Greedy answers of the engine with a GPU beside those of the processor in float32: models, placements, precisions.
import { compareAnswers } from './compareAnswers.mjs';
import { unequalRows } from './tokenRows.mjs';

const EVERYTHING = { gpu: 1, cpu: 0, disk: 0 };
const IN_MEMORY = { gpu: 0, cpu: 1, disk: 0 };
const SPREAD = { gpu: 0.4, cpu: 0.3, disk: 0.3 };

/** What lives where, by the words of the report. */
export const PLACEMENTS = {
  'all on the GPU': { weights: EVERYTHING, cache: EVERYTHING },
  'spread over GPU, memory and disk': { weights: SPREAD, cache: SPREAD, activations: { gpu: 0, cpu: 0.5, disk: 0.5 } },
  'cache in memory, attention on the processor': { weights: EVERYTHING, cache: IN_MEMORY },
  'cache in memory, half of it comes': { weights: EVERYTHING, cache: IN_MEMORY, cpuAttention: 0.5 },
};

/**
 * How far a log-probability may be off, as in test/gpu: float32 sums in another order; by default products are on
 * halves. The processor's own rounding of activations to 8 bits is left out by computing the expected answers in
 * float32.
 */
export const TOLERANCE = { default: 0.1, float32: 1e-3 };
/**
 * How products are computed, by the words of the report; cuBLASLt takes those of prompts of 128 tokens and more, where
 * it is there.
 */
export const VARIANTS = {
  float32: { precision: 'float32' },
  default: { precision: 'default' },
  'default, cuBLASLt where it is': { precision: 'default', gpuProducts: 'auto' },
};
/**
 * Rows that part at near-ties early prove little: so much of all tokens has to have been computed from the same text.
 */
const LEAST_COMPARED = 0.7;

async function generate(library, options, rows) {
  const results = [];
  const engine = await library.Engine.open({ policy: 'default', ...options });
  try {
    for await (const row of engine.generate(rows, { logprobs: 2, ignoreEos: true })) results.push(row);
  } finally {
    await engine.close();
  }
  return results;
}

/**
 * @param library spillway's exports
 * @param models name, path, vocabularySize, rows, promptTokens, newTokens, gpuMemory, `engine`: options of Engine.open,
 * and names of `variants`
 * @param disk folder for what streams and spills
 * @param onCase told each case as it is done
 * @returns the cases: model, precision, placement, and what `compareAnswers` says, or an `error`; `ok` is whether they
 * agree
 */
export async function endToEnd({ library, models, disk, placements = PLACEMENTS, onCase = () => {} }) {
  const cases = [];
  for (const { name, path, gpuMemory, engine = {}, variants = ['float32', 'default'], ...lengths } of models) {
    const rows = [...unequalRows(lengths)];
    const expected = await generate(library, { model: path, precision: 'float32', disk, ...engine }, rows);
    for (const variant of variants) {
      const { precision, ...products } = VARIANTS[variant];
      for (const [placement, shares] of Object.entries(placements)) {
        const began = performance.now();
        const about = { model: name, precision: variant, placement, tolerance: TOLERANCE[precision] };
        let outcome;
        try {
          outcome = compareAnswers(
            expected,
            await generate(
              library,
              { model: path, precision, disk, gpuMemory, ...products, ...engine, ...shares },
              rows,
            ),
            TOLERANCE[precision],
          );
        } catch (error) {
          outcome = { error: error.message };
        }
        const ok =
          outcome.error === undefined &&
          outcome.wrong.length === 0 &&
          outcome.compared >= LEAST_COMPARED * outcome.tokens;
        cases.push({ ...about, ...outcome, ok, seconds: (performance.now() - began) / 1000 });
        onCase(cases.at(-1), cases);
      }
    }
  }
  return cases;
}
