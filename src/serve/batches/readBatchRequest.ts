import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { CHAT, COMPLETIONS, EMBEDDINGS } from '../../jobs/formats/openaiRequest.js';
import { isAbsent } from '../../rows/rowFields.js';
import { ApiError } from '../http/ApiError.js';
import type { Batch } from './Batch.js';

const ENDPOINTS = [CHAT, COMPLETIONS, EMBEDDINGS];

const FIELDS = ['input_file_id', 'endpoint', 'completion_window', 'metadata', 'output_expires_after'];
const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** As OpenAI has them. */
const [MOST_PAIRS, MOST_KEY_UNITS, MOST_VALUE_UNITS] = [16, 64, 512];
const MOST_WINDOW_SECONDS = 366 * 86_400;

export interface BatchRequest {
  readonly asked: Pick<Batch, 'endpoint' | 'input_file_id' | 'completion_window' | 'metadata'>;
  /** How long the batch may take. */
  readonly seconds: number;
}

/** Reads what the body of `POST /v1/batches` asks for. @throws ApiError */
export function readBatchRequest(body: Readonly<Record<string, unknown>>): BatchRequest {
  const unknown = Object.keys(body).find((name) => !FIELDS.includes(name) && !isAbsent(body[name]));
  if (unknown !== undefined)
    throw wrong(`body: found the field ${found(unknown)}, expected any of ${FIELDS.join(', ')}`);
  const { input_file_id, endpoint, completion_window = '24h', metadata = null } = body;
  if (typeof input_file_id !== 'string')
    throw wrong(`input_file_id: found ${found(input_file_id)}, expected the id of a file`, 'input_file_id');
  if (typeof endpoint !== 'string' || !ENDPOINTS.includes(endpoint))
    throw wrong(`endpoint: found ${found(endpoint)}, expected one of ${ENDPOINTS.join(', ')}`, 'endpoint');
  const [, count = '', unit = ''] =
    (typeof completion_window === 'string' && /^(\d{1,8})([smhd])$/.exec(completion_window)) || [];
  const seconds = Number(count) * (SECONDS[unit] ?? 0);
  if (!(seconds >= 1 && seconds <= MOST_WINDOW_SECONDS))
    throw wrong(
      `completion_window: found ${found(completion_window)}, expected a time such as 24h, of a year at most`,
      'completion_window',
    );
  return {
    asked: { endpoint, input_file_id, completion_window: String(completion_window), metadata: metadataOf(metadata) },
    seconds,
  };
}

function metadataOf(value: unknown): Batch['metadata'] {
  if (value === null) return null;
  const pairs = isObject(value) ? Object.entries(value) : [];
  const sound = pairs.every(
    ([key, text]) => key.length <= MOST_KEY_UNITS && typeof text === 'string' && text.length <= MOST_VALUE_UNITS,
  );
  if (!isObject(value) || pairs.length > MOST_PAIRS || !sound)
    throw wrong(
      `metadata: found ${found(value)}, expected at most ${MOST_PAIRS} texts of ${MOST_VALUE_UNITS} characters, under keys of ${MOST_KEY_UNITS}`,
      'metadata',
    );
  return value as Readonly<Record<string, string>>;
}

function wrong(message: string, param?: string): ApiError {
  return new ApiError(400, message, { code: 'invalid-parameter', ...(param !== undefined && { param }) });
}
