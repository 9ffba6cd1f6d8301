import type { Registry } from '../../metrics/Registry.js';
import { sendJson } from '../http/ApiError.js';
import { overloaded } from '../http/bodies.js';
import { EventStream } from '../http/EventStream.js';
import type { Route } from '../http/HttpServer.js';
import { watchPage } from './watchPage.js';
import type { Watch } from './Watch.js';

/** Pages that are open at once. */
const MOST_WATCHERS = 32;
/** A page that takes nothing for so long is let go; it asks again. */
const STALL_SECONDS = 10;

/** The page, which says nothing by itself and so needs no key, and what it is told, second by second. */
export function watchRoutes(watch: Watch): readonly Route[] {
  const { html, policy } = watchPage();
  const bytes = Buffer.from(html);
  return [
    {
      method: 'GET',
      path: /^\/$/,
      name: '/',
      open: true,
      answer: ({ response }) => {
        response.writeHead(200, {
          'content-type': 'text/html; charset=utf-8',
          'content-length': bytes.length,
          'content-security-policy': policy,
          'referrer-policy': 'no-referrer',
          'cross-origin-resource-policy': 'same-origin',
          'cross-origin-opener-policy': 'same-origin',
        });
        response.end(bytes);
      },
    },
    {
      method: 'GET',
      path: /^\/events$/,
      name: '/events',
      answer: async ({ response, request, signal }) => {
        if (watch.watchers >= MOST_WATCHERS)
          throw overloaded(`${MOST_WATCHERS} pages are open, which is as many as may be at once`);
        const stream = new EventStream(response, STALL_SECONDS);
        // Of a page's beginning only the head is asked for.
        if (request.method !== 'HEAD') for await (const event of watch.events(signal)) await stream.send(event);
        stream.end();
      },
    },
  ];
}

/** `/health`: that there is somebody who answers. */
export const healthRoute: Route = {
  method: 'GET',
  path: /^\/health$/,
  name: '/health',
  open: true,
  answer: ({ response }) => sendJson(response, 200, { status: 'ok' }),
};

/** `/metrics`: Prometheus' text format. */
export function metricsRoute(registry: Registry): Route {
  return {
    method: 'GET',
    path: /^\/metrics$/,
    name: '/metrics',
    answer: ({ response }) => {
      const text = registry.text();
      response.writeHead(200, {
        'content-type': 'text/plain; version=0.0.4; charset=utf-8',
        'content-length': Buffer.byteLength(text),
      });
      response.end(text);
    },
  };
}
