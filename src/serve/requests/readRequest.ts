import { found } from '../../arguments/found.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { readWithSpelling } from '../../arguments/jsonNumbers.js';
import { RowError } from '../../errors/RowError.js';
import { lostField, spelledBody } from '../../jobs/formats/openaiBatch.js';
import { askedProblem, CHAT, rowOfBody } from '../../jobs/formats/openaiRequest.js';
import { lostFormat } from '../../jobs/formats/parseRow.js';
import { statusOf } from '../../jobs/formats/openaiAnswer.js';
import type { RowFailure, RowInput } from '../../Row.js';
import { isAbsent } from '../../rows/rowFields.js';
import { ApiError } from '../http/ApiError.js';
import type { JsonBody } from '../http/bodies.js';
import type { ServeLimits } from '../ServeOptions.js';

export type Body = Readonly<Record<string, unknown>>;

/** The wishes of a request for text, beside its rows. */
export interface GenerationRequest {
  readonly text: boolean;
  readonly rows: readonly RowInput[];
  /** Answers to each row. */
  readonly n: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Alternatives to each token whose log-probabilities are wanted; undefined for none at all. */
  readonly logprobs: number | undefined;
}

/** Alternatives that OpenAI's and other servers tell of. */
const MOST_ALTERNATIVES = 20;
/** Fields that batch files refuse, as nothing there can be done with them. */
const HANDLED = ['stream', 'logprobs', 'top_logprobs'];

/** A body that is an object, in which numbers of formats and templates are as they were written. @throws ApiError */
export function objectOf({ read, written, json }: JsonBody): Body {
  if (!isObject(read)) throw refused(`body: found ${found(read)}, expected an object`, 'invalid-row');
  const lost = lostField(read, membersOf(written));
  if (lost !== undefined) throw rowProblem(lostFormat({}, lost).error);
  return spelledBody(read, membersOf(readWithSpelling(json, read)));
}

/** The model that a body names. @throws ApiError */
export function modelOf(body: Body): string | undefined {
  const { model } = body;
  if (isAbsent(model)) return undefined;
  if (typeof model !== 'string')
    throw refused(`model: found ${found(model)}, expected a string`, 'invalid-row', 'model');
  return model;
}

/** Reads what a body of `/v1/chat/completions` or `/v1/completions` asks for. @throws ApiError */
export function readGeneration(url: string, body: Body, limits: ServeLimits): GenerationRequest {
  const text = url !== CHAT;
  const logprobs = text ? textLogprobs(body) : chatLogprobs(body);
  const stream = flagOf('stream', body['stream']);
  const options = body['stream_options'];
  if (!isAbsent(options) && !isObject(options))
    throw refused(`stream_options: found ${found(options)}, expected an object`, 'invalid-parameter', 'stream_options');
  const bodies = text ? split(body, 'prompt', limits) : [body];
  const rows = bodies.map((each, at) => checkedRow(url, each, at));
  const [first] = rows;
  const n = (first && 'samples' in first ? first.samples : undefined) ?? 1;
  if (rows.length * n > limits.choices)
    throw refused(`n: found ${rows.length * n} answers in all, expected at most ${limits.choices}`, 'limit', 'n');
  return {
    text,
    rows,
    n,
    stream,
    includeUsage: stream && flagOf('stream_options.include_usage', membersOf(options)['include_usage']),
    logprobs,
  };
}

/** The rows of a body with several inputs under this name, one each. @throws ApiError */
export function rowsOf(url: string, body: Body, name: string, limits: ServeLimits): readonly RowInput[] {
  return split(body, name, limits).map((each, at) => checkedRow(url, each, at));
}

/** Says what a row's error means for a request. */
export function rowProblem({ code, message }: RowFailure): ApiError {
  const status = code === 'timeout' ? 504 : statusOf(code);
  const { message: told, param } = askedProblem(message);
  return new ApiError(status, told, {
    code: code === 'too-long' ? 'context_length_exceeded' : code,
    ...(param !== null && { param }),
  });
}

function checkedRow(url: string, body: Body, at: number): RowInput {
  try {
    const row = rowOfBody(url, body, { id: String(at), line: at + 1, handled: HANDLED });
    if ('error' in row) throw rowProblem(row.error);
    return row;
  } catch (error) {
    if (error instanceof RowError) throw rowProblem({ code: error.rowCode, message: error.message });
    throw error;
  }
}

/** A body for each of the texts or lists of tokens that stand in a list. @throws ApiError */
function split(body: Body, name: string, { inputs }: ServeLimits): readonly Body[] {
  const value = body[name];
  if (!Array.isArray(value) || (value.length > 0 && value.every((each) => typeof each === 'number'))) return [body];
  if (value.length === 0 || value.length > inputs)
    throw refused(`${name}: found a list of ${value.length}, expected 1 to ${inputs}`, 'invalid-parameter', name);
  return value.map((each: unknown) => ({ ...body, [name]: Array.isArray(each) ? each : [each] }));
}

function chatLogprobs(body: Body): number | undefined {
  const wanted = flagOf('logprobs', body['logprobs']);
  const top = alternatives('top_logprobs', body['top_logprobs']);
  if (!wanted && top !== undefined && top > 0)
    throw refused(
      'top_logprobs: found it without logprobs, expected `"logprobs": true` beside it',
      'invalid-parameter',
    );
  return wanted ? (top ?? 0) : undefined;
}

function textLogprobs(body: Body): number | undefined {
  // What clients send that know of the other route's alone.
  return body['logprobs'] === false ? undefined : alternatives('logprobs', body['logprobs']);
}

function alternatives(name: string, value: unknown): number | undefined {
  if (isAbsent(value)) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MOST_ALTERNATIVES) return value;
  throw refused(
    `${name}: found ${found(value)}, expected a whole number from 0 to ${MOST_ALTERNATIVES}`,
    'invalid-parameter',
    name,
  );
}

function flagOf(name: string, value: unknown): boolean {
  if (isAbsent(value)) return false;
  if (typeof value !== 'boolean')
    throw refused(`${name}: found ${found(value)}, expected true or false`, 'invalid-parameter', name);
  return value;
}

function refused(message: string, code: string, param?: string): ApiError {
  return new ApiError(400, message, { code, ...(param !== undefined && { param }) });
}
