import type { Registry } from '../../metrics/Registry.js';
import { sendJson } from '../http/ApiError.js';
import type { Route } from '../http/HttpServer.js';
import type { Served } from '../Served.js';
import { healthRoute, metricsRoute } from '../watch/watchRoutes.js';

/** `/health`, `/metrics` and `/v1/models`: what there is, for whoever looks. */
export function statusRoutes(served: Served, registry: Registry, created: number): readonly Route[] {
  const describe = (id: string): object => ({ id, object: 'model', created, owned_by: 'spillway' });
  return [
    healthRoute,
    metricsRoute(registry),
    {
      method: 'GET',
      path: /^\/v1\/models$/,
      name: '/v1/models',
      answer: ({ response }) => sendJson(response, 200, { object: 'list', data: served.models.names.map(describe) }),
    },
    {
      method: 'GET',
      // Names of models have slashes.
      path: /^\/v1\/models\/(.+)$/,
      name: '/v1/models/{id}',
      answer: ({ response, params: [name = ''] }) => sendJson(response, 200, describe(served.model(name).name)),
    },
  ];
}
