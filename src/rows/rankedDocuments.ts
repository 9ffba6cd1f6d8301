import type { DocumentScore } from '../KeptAnswer.js';
import type { RerankResult } from '../Results.js';
import { MOST_COMPLETIONS } from './completions.js';

/** Documents for a query as rows, which have so many at most. */
export function documentRows(
  query: string,
  documents: readonly string[],
): { readonly id: string; readonly query: string; readonly documents: readonly string[] }[] {
  return Array.from({ length: Math.ceil(documents.length / MOST_COMPLETIONS) }, (_, at) => ({
    id: String(at),
    query,
    documents: documents.slice(at * MOST_COMPLETIONS, (at + 1) * MOST_COMPLETIONS),
  }));
}

/** A document by its number among all, and how well it answers. */
export interface RankedDocument extends Pick<DocumentScore, 'score'> {
  readonly index: number;
}

/** The documents of the results of such rows, the best first, of equal ones the first. @param most how many at most */
export function rankedDocuments(results: readonly RerankResult[], most = Infinity): readonly RankedDocument[] {
  return results
    .flatMap(({ index: row, scores = [] }) =>
      scores.map(({ score }, within) => ({ index: row * MOST_COMPLETIONS + within, score })),
    )
    .sort((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, most);
}
