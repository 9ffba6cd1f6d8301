import type { GenerateOptions } from '../../Row.js';
import { isOver, newBatch } from '../batches/Batch.js';
import type { BatchRunner } from '../batches/BatchRunner.js';
import type { BatchStore } from '../batches/BatchStore.js';
import { readBatchRequest } from '../batches/readBatchRequest.js';
import { type FileStore, linked } from '../files/FileStore.js';
import { ApiError, sendJson } from '../http/ApiError.js';
import { hasBody, overloaded } from '../http/bodies.js';
import type { Exchange } from '../http/Exchange.js';
import type { Route } from '../http/HttpServer.js';
import { pageOf } from '../http/lists.js';
import { objectOf } from '../requests/readRequest.js';

export interface BatchParts {
  readonly batches: BatchStore;
  readonly files: FileStore;
  readonly runner: BatchRunner;
  /** The options for rows that say nothing themselves. */
  readonly told: GenerateOptions;
}

/** `/v1/batches`. */
export function batchRoutes(parts: BatchParts): readonly Route[] {
  const { batches, runner } = parts;
  const [all, one] = [/^\/v1\/batches$/, /^\/v1\/batches\/([^/]*)$/];
  return [
    { method: 'POST', path: all, name: '/v1/batches', answer: (exchange) => makeBatch(exchange, parts) },
    {
      method: 'GET',
      path: all,
      name: '/v1/batches',
      answer: ({ response, query }) => sendJson(response, 200, pageOf(batches.list(), query)),
    },
    {
      method: 'GET',
      path: one,
      name: '/v1/batches/{id}',
      answer: ({ response, params: [id = ''] }) => sendJson(response, 200, batches.get(id).batch),
    },
    {
      method: 'POST',
      path: /^\/v1\/batches\/([^/]*)\/cancel$/,
      name: '/v1/batches/{id}/cancel',
      answer: async (exchange) => {
        const {
          request,
          response,
          params: [id = ''],
        } = exchange;
        if (hasBody(request)) await exchange.json();
        const { batch, ending } = batches.get(id);
        if (isOver(batch) || ending !== undefined) {
          if (ending === 'cancelled') {
            sendJson(response, 200, batch);
            return;
          }
          throw new ApiError(409, `the batch is ${batch.status}, expected one that is on its way`, {
            code: 'batch_not_cancellable',
          });
        }
        sendJson(response, 200, (await runner.cancel(id)).batch);
      },
    },
  ];
}

async function makeBatch(exchange: Exchange, { batches, files, runner, told }: BatchParts): Promise<void> {
  const { asked, seconds } = readBatchRequest(objectOf(await exchange.json()));
  const { waitingBatches } = exchange.limits;
  if (batches.open().length >= waitingBatches)
    throw overloaded(`${waitingBatches} batches are not over yet, which is as many as may be`);
  const file = files.get(asked.input_file_id);
  if (file.purpose !== 'batch')
    throw new ApiError(400, `input_file_id: found a file for ${file.purpose}, expected one of purpose batch`, {
      param: 'input_file_id',
      code: 'invalid-parameter',
    });
  const kept = newBatch(asked, seconds, told);
  const { id } = kept.batch;
  await batches.make(id);
  try {
    // A name of its own, under which it stays until the batch is over, whatever becomes of the other.
    await linked(files.pathOf(file), batches.pathOf(id, 'input.jsonl'));
    await batches.keep(kept);
  } catch (error) {
    await batches.forget(id);
    throw error;
  }
  sendJson(exchange.response, 200, kept.batch);
  runner.wake();
}
