import { randomBytes } from 'node:crypto';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import type { RerankResult } from '../../Results.js';
import { documentRows, rankedDocuments } from '../../rows/rankedDocuments.js';
import { isAbsent } from '../../rows/rowFields.js';
import { ApiError, sendJson } from '../http/ApiError.js';
import type { Exchange } from '../http/Exchange.js';
import type { Route } from '../http/HttpServer.js';
import { type Body, modelOf, objectOf, rowProblem } from '../requests/readRequest.js';
import { PRIORITIES, type Served } from '../Served.js';

const FIELDS = ['model', 'query', 'documents', 'top_n', 'return_documents', 'user'];

/** `/v1/rerank`, in the shape of Jina and Cohere, and under the paths of theirs that clients know. */
export function rerankRoute(served: Served): Route {
  return {
    method: 'POST',
    path: /^\/(?:v[12]\/)?rerank$/,
    name: '/v1/rerank',
    answer: (exchange) => answerRerank(served, exchange),
  };
}

async function answerRerank(served: Served, exchange: Exchange): Promise<void> {
  const body = objectOf(await exchange.json());
  const unknown = Object.keys(body).find((name) => !FIELDS.includes(name) && !isAbsent(body[name]));
  if (unknown !== undefined)
    throw wrong(`body: found the field ${found(unknown)}, expected any of ${FIELDS.join(', ')}`);
  const model = served.model(modelOf(body));
  const { query } = body;
  if (typeof query !== 'string') throw wrong(`query: found ${found(query)}, expected a text`, 'query');
  const documents = documentsOf(body, served.limits.inputs);
  const most = topOf(body, documents.length);
  const withTexts = body['return_documents'] !== false;
  await served.with(model, exchange, async ({ engine }) => {
    if (!engine.rerank) throw new ApiError(400, `model: found ${model.name}, which ranks nothing`, { param: 'model' });
    const { truncate, escapeSpecialTokens } = served.defaults;
    const results: RerankResult[] = [];
    const told = {
      ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
      ...(truncate !== undefined && { truncate }),
      signal: exchange.signal,
      priority: PRIORITIES.request,
    };
    for await (const result of engine.rerank(documentRows(query, documents), told)) {
      served.metrics().rowAnswered('request', result);
      if (result.error) throw rowProblem(result.error);
      results.push(result);
    }
    const ranked = rankedDocuments(results, most);
    const tokens = results.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
    sendJson(exchange.response, 200, {
      id: `rerank-${randomBytes(16).toString('hex')}`,
      object: 'list',
      model: model.name,
      results: ranked.map(({ index, score }) => ({
        index,
        relevance_score: score,
        ...(withTexts && { document: { text: documents[index] } }),
      })),
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    });
  });
}

/** Texts, or objects with one. @throws ApiError */
function documentsOf({ documents }: Body, most: number): readonly string[] {
  if (!Array.isArray(documents) || documents.length === 0 || documents.length > most)
    throw wrong(
      `documents: found ${Array.isArray(documents) ? `a list of ${documents.length}` : found(documents)}, expected 1 to ${most} texts`,
      'documents',
    );
  return documents.map((document: unknown, at) => {
    const text = isObject(document) ? document['text'] : document;
    if (typeof text === 'string') return text;
    throw wrong(`documents[${at}]: found ${found(document)}, expected a text, or an object with one`, 'documents');
  });
}

function topOf({ top_n: top, return_documents: returned }: Body, all: number): number {
  if (!isAbsent(returned) && typeof returned !== 'boolean')
    throw wrong(`return_documents: found ${found(returned)}, expected true or false`, 'return_documents');
  if (isAbsent(top)) return all;
  if (typeof top === 'number' && Number.isInteger(top) && top >= 1) return top;
  throw wrong(`top_n: found ${found(top)}, expected a whole number of 1 or more`, 'top_n');
}

function wrong(message: string, param?: string): ApiError {
  return new ApiError(400, message, { code: 'invalid-parameter', ...(param !== undefined && { param }) });
}
