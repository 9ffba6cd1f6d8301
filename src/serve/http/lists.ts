import { found } from '../../arguments/found.js';
import { ApiError } from './ApiError.js';

const [USUAL, MOST] = [20, 10_000];

/**
 * A page of a list, as OpenAI has it: `limit`, `after`, `order`.
 * @param all the latest first
 * @throws ApiError
 */
export function pageOf(all: readonly { readonly id: string }[], query: URLSearchParams, usual = USUAL): object {
  const [limit, after, order] = [query.get('limit'), query.get('after'), query.get('order') ?? 'desc'];
  const most = limit === null ? usual : Number(limit);
  if (!Number.isInteger(most) || most < 1 || most > MOST || limit === '')
    throw new ApiError(400, `limit: found ${found(limit)}, expected 1 to ${MOST}`, {
      param: 'limit',
      code: 'invalid-parameter',
    });
  if (order !== 'asc' && order !== 'desc')
    throw new ApiError(400, `order: found ${found(order)}, expected asc or desc`, {
      param: 'order',
      code: 'invalid-parameter',
    });
  const list = order === 'asc' ? [...all].reverse() : all;
  const at = after === null ? -1 : list.findIndex(({ id }) => id === after);
  if (after !== null && at < 0)
    throw new ApiError(400, 'after: found an id that is not in the list', {
      param: 'after',
      code: 'invalid-parameter',
    });
  const data = list.slice(at + 1, at + 1 + most);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: at + 1 + most < list.length,
  };
}
