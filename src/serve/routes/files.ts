import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { FileStore } from '../files/FileStore.js';
import { receiveFile } from '../files/receiveFile.js';
import { sendJson } from '../http/ApiError.js';
import { written } from '../http/EventStream.js';
import type { Exchange } from '../http/Exchange.js';
import type { Route } from '../http/HttpServer.js';
import { pageOf } from '../http/lists.js';

/** `/v1/files`. */
export function fileRoutes(store: FileStore): readonly Route[] {
  const [all, one] = [/^\/v1\/files$/, /^\/v1\/files\/([^/]*)$/];
  return [
    {
      method: 'POST',
      path: all,
      name: '/v1/files',
      answer: async (exchange) => sendJson(exchange.response, 200, await receiveFile(exchange, store)),
    },
    {
      method: 'GET',
      path: all,
      name: '/v1/files',
      answer: ({ response, query }) => {
        const purpose = query.get('purpose');
        const files = store.list().filter((file) => purpose === null || file.purpose === purpose);
        sendJson(response, 200, pageOf(files, query, 10_000));
      },
    },
    {
      method: 'GET',
      path: one,
      name: '/v1/files/{id}',
      answer: ({ response, params: [id = ''] }) => sendJson(response, 200, store.get(id)),
    },
    {
      method: 'DELETE',
      path: one,
      name: '/v1/files/{id}',
      answer: async ({ response, params: [id = ''] }) => {
        await store.remove(id);
        sendJson(response, 200, { id, object: 'file', deleted: true });
      },
    },
    {
      method: 'GET',
      path: /^\/v1\/files\/([^/]*)\/content$/,
      name: '/v1/files/{id}/content',
      answer: (exchange) => sendContent(exchange, store),
    },
  ];
}

async function sendContent(
  { request, response, params: [id = ''], limits }: Exchange,
  store: FileStore,
): Promise<void> {
  const path = store.pathOf(store.get(id));
  const { size } = await stat(path);
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${id}.jsonl"`,
    'content-length': size,
  });
  if (request.method !== 'HEAD' && size > 0)
    for await (const part of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>)
      await written(response, part, limits.stallSeconds);
  response.end();
}
