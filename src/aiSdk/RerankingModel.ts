import {
  type RerankingModelV4,
  type RerankingModelV4CallOptions,
  type RerankingModelV4Result,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { membersOf } from '../arguments/isObject.js';
import { documentRows, rankedDocuments } from '../rows/rankedDocuments.js';
import type { RerankResult } from '../Results.js';
import { rowErrorOf, wrongArgument } from './errors.js';
import { ProvidedModel } from './ProvidedModel.js';
import { ownOptions } from './providerOptions.js';

/** A model that tells how well texts answer a query. */
export class RerankingModel extends ProvidedModel implements RerankingModelV4 {
  async doRerank(options: RerankingModelV4CallOptions): Promise<RerankingModelV4Result> {
    const { query, topN, abortSignal: signal } = options;
    const told = { ...ownOptions('answer', options), ...(signal && { signal }) };
    if (typeof query !== 'string') throw wrongArgument('query', `query: found ${found(query)}, expected a text`);
    if (topN !== undefined && !(Number.isInteger(topN) && topN >= 1))
      throw wrongArgument('topN', `topN: found ${found(topN)}, expected a whole number of 1 or more`);
    const documents = textsOf(options.documents);
    return this.engines().with(this.modelId, { signal, prompt: query }, async (engine) => {
      if (!engine.rerank)
        throw new UnsupportedFunctionalityError({
          functionality: 'reranking',
          message: `${this.modelId}: ranks nothing`,
        });
      const results: RerankResult[] = [];
      for await (const result of engine.rerank(documentRows(query, documents), told)) {
        if (result.error) throw rowErrorOf(result.error, query);
        results.push(result);
      }
      return {
        ranking: rankedDocuments(results, topN).map(({ index, score }) => ({ index, relevanceScore: score })),
        warnings:
          options.documents.type === 'object'
            ? [{ type: 'compatibility', feature: 'object documents', details: 'They are ranked by their JSON.' }]
            : [],
        response: { timestamp: new Date(), modelId: this.modelId },
      };
    });
  }
}

/** Objects as their JSON. */
function textsOf(documents: RerankingModelV4CallOptions['documents']): readonly string[] {
  const { type, values } = membersOf(documents);
  if (!Array.isArray(values) || (type !== 'text' && type !== 'object'))
    throw wrongArgument(
      'documents',
      `documents: found ${found(documents)}, expected { type: 'text' or 'object', values }`,
    );
  return values.map((value: unknown, at) => {
    if (type === 'object') return JSON.stringify(value) ?? 'null';
    if (typeof value === 'string') return value;
    throw wrongArgument('documents', `documents.values[${at}]: found ${found(value)}, expected a text`);
  });
}
