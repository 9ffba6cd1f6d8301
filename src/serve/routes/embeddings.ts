import { EMBEDDINGS } from '../../jobs/formats/openaiRequest.js';
import type { EmbedResult } from '../../Results.js';
import { embeddingAs } from '../../rows/embeddings.js';
import { ApiError, sendJson } from '../http/ApiError.js';
import type { Exchange } from '../http/Exchange.js';
import type { Route } from '../http/HttpServer.js';
import { modelOf, objectOf, rowProblem, rowsOf } from '../requests/readRequest.js';
import { PRIORITIES, type Served } from '../Served.js';

/** `/v1/embeddings`. */
export function embeddingsRoute(served: Served): Route {
  return {
    method: 'POST',
    path: new RegExp(`^${EMBEDDINGS}$`),
    name: EMBEDDINGS,
    answer: (exchange) => answerEmbeddings(served, exchange),
  };
}

async function answerEmbeddings(served: Served, exchange: Exchange): Promise<void> {
  const body = objectOf(await exchange.json());
  const model = served.model(modelOf(body));
  const rows = rowsOf(EMBEDDINGS, body, 'input', served.limits);
  const encoding = body['encoding_format'] === 'base64' ? 'base64' : 'float';
  await served.with(model, exchange, async ({ engine }) => {
    if (!engine.embed) throw new ApiError(400, `model: found ${model.name}, which embeds nothing`, { param: 'model' });
    const results: EmbedResult[] = [];
    const { escapeSpecialTokens, truncate } = served.defaults;
    const told = {
      ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
      ...(truncate !== undefined && { truncate }),
      encoding,
      signal: exchange.signal,
      priority: PRIORITIES.request,
    } as const;
    for await (const result of engine.embed(rows, told)) {
      served.metrics().rowAnswered('request', result);
      if (result.error) throw rowProblem(result.error);
      results.push(result);
    }
    const tokens = results.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
    sendJson(exchange.response, 200, {
      object: 'list',
      data: results.map(({ embedding = [], index }) => ({
        object: 'embedding',
        index,
        embedding: embeddingAs({ embedding }, encoding),
      })),
      model: model.name,
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    });
  });
}
