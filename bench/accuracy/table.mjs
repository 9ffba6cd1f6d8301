import { markdownTable } from '../lib/results.mjs';

/** How much worse than its baseline a result is, as a share; undefined without one. */
export function lossOf(result, results) {
  const baseline = results.find(({ name }) => name === result.baseline);
  return baseline && result.perplexity / baseline.perplexity - 1;
}

/** Lines of a table of results: {name, baseline?, perplexity, rightWords?, words?, weightBits, cacheBits}. */
export function accuracyTable(results) {
  return markdownTable(
    ['', 'perplexity', 'loss', 'from', 'last words right', 'bits a weight', 'bits a cache element'],
    results.map((result) => {
      const loss = lossOf(result, results);
      return [
        result.name,
        result.perplexity.toFixed(2),
        loss === undefined ? '' : `${(100 * loss).toFixed(2)}%`,
        loss === undefined ? '' : result.baseline,
        result.words === undefined ? '' : `${((100 * result.rightWords) / result.words).toFixed(1)}%`,
        result.weightBits.toFixed(1),
        result.cacheBits.toFixed(1),
      ];
    }),
  );
}
