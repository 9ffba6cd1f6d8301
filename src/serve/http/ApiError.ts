import type { ServerResponse } from 'node:http';
import { SpillwayError } from '../../errors/SpillwayError.js';

/** The facts in an answer's status and body, as OpenAI writes errors. */
interface ErrorFacts {
  /** The code by which a program tells it. */
  readonly code?: string;
  /** The field at fault. */
  readonly param?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A request is answered with an error. */
export class ApiError extends Error {
  readonly code: string | null;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    readonly status: number,
    message: string,
    { code, param, headers = {}, cause }: ErrorFacts = {},
  ) {
    super(message, { cause });
    this.code = code ?? null;
    this.param = param ?? null;
    this.headers = headers;
  }

  get type(): string {
    return TYPES[this.status] ?? (this.status >= 500 ? 'server_error' : 'invalid_request_error');
  }

  get body(): object {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
};

/** Codes of our errors that are the machine's or the model's own. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  usage: 400,
  row: 400,
  'response-format': 400,
  interrupted: 503,
  'memory-budget': 503,
};

/**
 * Says what a request is told of an error. Of one that is nobody's on purpose it learns nothing: what it says may be of
 * files and of other requests.
 */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof SpillwayError))
    return new ApiError(500, 'something went wrong that should not', { cause: error });
  const status = STATUS_OF_CODE[error.code] ?? 500;
  return new ApiError(status, status === 500 ? `the model cannot answer (${error.code})` : error.message, {
    code: error.code.replaceAll('-', '_'),
    ...(status === 503 && { headers: { 'retry-after': '5' } }),
    cause: error,
  });
}

/** Answers with JSON. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}
