import { binomialBound, mostAtChance } from './binomial.js';

/** A row of a sample: how sure a model was of its answer, and whether the last model's is the same. */
export interface JudgedRow {
  readonly confidence: number;
  readonly agrees: boolean;
}

/** A sample's findings about a model of a cascade. */
export interface LearnedThreshold {
  /** From which confidence on answers stand; null where none may. */
  readonly threshold: number | null;
  /** Rows of the sample, those whose answers stand from there on, and those of them that are not the last model's. */
  readonly rows: number;
  readonly stand: number;
  readonly differ: number;
  /** The bound of Clopper and Pearson: at most this share of all rows has an answer that stands and differs. */
  readonly bound: number;
}

/**
 * The least threshold from which on answers may stand, so that with probability 1 - `chance` over the draw of the
 * sample at most the share `risk` of all rows has an answer that stands and differs from the last model's.
 *
 * Learn then test (Angelopoulos et al. 2021, arXiv:2110.01052): thresholds are tested from the safest on down, each by
 * the exact binomial p-value of "more than `risk` differ", and the last before the first that fails is taken. As that
 * share only grows from one to the next (Bates et al. 2021, arXiv:2101.02703), no grid has to be laid before the sample
 * is seen, and nothing is paid for testing many.
 */
export function learnedThreshold(
  sample: readonly JudgedRow[],
  { risk, chance }: { readonly risk: number; readonly chance: number },
): LearnedThreshold {
  const most = mostAtChance(sample.length, risk, chance);
  const sorted = [...sample].sort((a, b) => b.confidence - a.confidence);
  let [threshold, stand, differ]: [number | null, number, number] = [null, 0, 0];
  let wrong = 0;
  for (const [at, { confidence, agrees }] of sorted.entries()) {
    // What is no answer never stands.
    if (confidence < 0) break;
    if (!agrees) wrong += 1;
    if (wrong > most) break;
    if (sorted[at + 1]?.confidence !== confidence) [threshold, stand, differ] = [confidence, at + 1, wrong];
  }
  return { threshold, rows: sample.length, stand, differ, bound: binomialBound(differ, sample.length, chance) };
}
