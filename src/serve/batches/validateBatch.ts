import { found } from '../../arguments/found.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { bytesOf } from '../../files/fileBytes.js';
import { jsonLine, rowMade } from '../../jobs/formats/jsonLine.js';
import { isBlank, readLines } from '../../jobs/formats/readLines.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { Models } from '../models/Models.js';
import type { ServedModel } from '../ServeOptions.js';
import type { BatchProblem } from './Batch.js';

/** Problems that are told of, of a file that has more. */
const MOST_PROBLEMS = 100;

export type Validation =
  | { readonly model: ServedModel; readonly rows: number; readonly problems?: never }
  | { readonly problems: readonly BatchProblem[] };

/**
 * Looks through a batch's input for what makes all of it none: no requests, too many, requests for several models or
 * for one that is not served, or for another endpoint than the batch's. What is wrong with one request alone is that
 * one's error.
 * @throws JobFileError; InterruptedError
 */
export async function validateBatch(
  path: string,
  endpoint: string,
  models: Pick<Models, 'find' | 'names'>,
  { mostRows, signal }: { readonly mostRows: number; readonly signal: AbortSignal },
): Promise<Validation> {
  const problems: BatchProblem[] = [];
  const add = (code: string, message: string, line: number | null = null, param: string | null = null): void => {
    if (problems.length < MOST_PROBLEMS) problems.push({ code, message, param, line });
  };
  let [rows, requests] = [0, 0];
  let model: ServedModel | undefined;
  for await (const line of readLines(bytesOf(path, signal), ROW_LIMITS.lineBytes)) {
    if (line.bytes && isBlank(line.bytes)) continue;
    rows += 1;
    if (rows > mostRows) {
      add('too_many_requests', `found more than ${mostRows} requests, expected at most so many`);
      break;
    }
    const read = jsonLine(line, ROW_LIMITS.lineBytes);
    const { bad, read: request } = {
      read: undefined,
      bad: undefined,
      ...(read instanceof Promise ? await read : read),
    };
    const made = rowMade(line);
    if (made) await made;
    if (bad || !isObject(request)) continue;
    requests += 1;
    const { url, body } = request;
    if (url !== endpoint)
      add(
        'mismatched_endpoint',
        `url: found ${found(url)}, expected ${endpoint}, the endpoint of the batch`,
        line.number,
        'url',
      );
    const named = membersOf(body)['model'] ?? undefined;
    const one = typeof named === 'string' || named === undefined ? models.find(named) : undefined;
    if (!one)
      add(
        'model_not_found',
        `body.model: found ${found(named)}, expected one of ${models.names.join(', ')}`,
        line.number,
        'body.model',
      );
    else if (model && one !== model)
      add(
        'mismatched_model',
        `body.model: found ${found(named)}, expected ${model.name}, as in the requests before`,
        line.number,
        'body.model',
      );
    model ??= one;
    if (problems.length === MOST_PROBLEMS) break;
  }
  if (requests === 0) add('empty_file', 'found no requests, expected lines with custom_id, method, url and body');
  return problems.length > 0 || !model ? { problems } : { model, rows };
}
