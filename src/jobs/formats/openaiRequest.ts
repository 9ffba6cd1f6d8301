import { found } from '../../arguments/found.js';
import { didYouMean } from '../../arguments/nearest.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { RowError } from '../../errors/RowError.js';
import type { RowInput } from '../../Row.js';
import { isAbsent } from '../../rows/rowFields.js';
import type { JobTaskName } from '../../Results.js';
import { lineWithoutRow, parseRow } from './parseRow.js';

type Body = Readonly<Record<string, unknown>>;

export const CHAT = '/v1/chat/completions';
export const COMPLETIONS = '/v1/completions';
export const EMBEDDINGS = '/v1/embeddings';
/** The URLs that each task answers. */
const URLS: Readonly<Record<JobTaskName, readonly string[]>> = {
  generate: [CHAT, COMPLETIONS],
  embed: [EMBEDDINGS],
  classify: [],
  score: [],
  rerank: [],
};
/** Ours by theirs; from `top_k` on what vLLM adds. */
const PARAMETERS: Readonly<Record<string, string>> = {
  max_tokens: 'maxNewTokens',
  max_completion_tokens: 'maxNewTokens',
  temperature: 'temperature',
  top_p: 'topP',
  seed: 'seed',
  stop: 'stop',
  n: 'samples',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  logit_bias: 'logitBias',
  response_format: 'responseFormat',
  top_k: 'topK',
  min_p: 'minP',
  repetition_penalty: 'repetitionPenalty',
  min_tokens: 'minNewTokens',
  stop_token_ids: 'stopTokenIds',
  bad_words: 'badWords',
  tools: 'tools',
  tool_choice: 'toolChoice',
  parallel_tool_calls: 'parallelToolCalls',
};
/** Theirs by ours; of two the first. */
const THEIRS = new Map([
  ...Object.entries(PARAMETERS)
    .reverse()
    .map(([theirs, ours]) => [ours, theirs] as const),
  ['id', 'custom_id'],
  ['templateArgs', 'chat_template_kwargs'],
]);
/** How much is reasoned, in OpenAI's words; and what chat templates call it, of which most know at most whether to. */
const EFFORTS: Readonly<Record<string, Body>> = {
  none: { enable_thinking: false },
  minimal: { enable_thinking: true, reasoning_effort: 'low' },
  low: { enable_thinking: true, reasoning_effort: 'low' },
  medium: { enable_thinking: true, reasoning_effort: 'medium' },
  high: { enable_thinking: true, reasoning_effort: 'high' },
  xhigh: { enable_thinking: true, reasoning_effort: 'high' },
  max: { enable_thinking: true, reasoning_effort: 'high' },
};
/**
 * Fields that would change an answer and cannot be followed, unless a field says that it is off: nobody is to take an
 * answer for what it is not.
 */
const REFUSED = [
  'stream',
  'functions',
  'logprobs',
  'top_logprobs',
  'suffix',
  'echo',
  'best_of',
  'modalities',
  'audio',
] as const;

/**
 * Fields that change no answer of ours: whom a request is of, what is kept of it, what goes with things refused above.
 */
const NEUTRAL: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'prompt',
  'user',
  'metadata',
  'store',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'stream_options',
  'function_call',
  'prediction',
  'reasoning_effort',
  'chat_template_kwargs',
  ...Object.keys(PARAMETERS),
]);

const EMBEDDING_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'input',
  'dimensions',
  'encoding_format',
  'user',
  'metadata',
]);

/** Fields whose values here are what is done anyway. */
const AS_EVER: Readonly<Record<string, unknown>> = {
  add_generation_prompt: true,
  add_special_tokens: true,
  skip_special_tokens: true,
  spaces_between_special_tokens: true,
  include_stop_str_in_output: false,
  length_penalty: 1,
};

/**
 * The row that a request asks for. What is no request, and one for something else than text, is a row with an error,
 * which says what was expected.
 * @param line its number from 1, the id of one that has none
 * @param task what is done with it: requests for something else are errors
 */
export function requestedRow(request: unknown, line: number, task: JobTaskName): RowInput {
  if (!isObject(request))
    return lineWithoutRow(
      line,
      'invalid-row',
      `found ${found(request)}, expected a request with custom_id, method, url and body`,
    );
  const { custom_id: id, method = 'POST', url, body } = request;
  if (typeof id !== 'string')
    return lineWithoutRow(line, 'invalid-row', `custom_id: found ${found(id)}, expected a string`);
  try {
    if (method !== 'POST') throw new RowError('invalid-row', `method: found ${found(method)}, expected POST`);
    if (!isObject(body)) throw new RowError('invalid-row', `body: found ${found(body)}, expected an object`);
    checkUrl(url, task);
    return rowOfBody(url, body, { id, line });
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    return { id, error: { code: error.rowCode, message: error.message } };
  }
}

/**
 * The row that the body of a request asks for.
 * @param handled fields that are refused in batch files, and that whoever asks sees to
 * @throws RowError
 */
export function rowOfBody(
  url: unknown,
  body: Body,
  { id, line, handled = [] }: { readonly id: string; readonly line: number; readonly handled?: readonly string[] },
): RowInput {
  if (url === EMBEDDINGS) return embeddedRow(id, body, line);
  checkSupported(body, handled);
  return parseRow(
    {
      id,
      ...(url === CHAT ? { messages: messagesOf(body) } : promptOf('prompt', body['prompt'])),
      ...parametersOf(body),
    },
    line,
    false,
  );
}

/** A row's problem in the words of its request: with OpenAI's name of the parameter, and which one it is. */
export function askedProblem(message: string): { readonly message: string; readonly param: string | null } {
  const [, body = '', own, rest = ''] = /^(body\.)?([a-z]\w*)([:.[][^]*)$/i.exec(message) ?? [];
  if (own === undefined || own === 'body') return { message, param: null };
  // They stood in the prompt or the input, which the row does not say any more.
  if (own === 'tokens') return { message: `${body}token ids${rest}`, param: null };
  const param = THEIRS.get(own) ?? own;
  return { message: `${body}${param}${rest}`, param };
}

/** @throws RowError */
function embeddedRow(id: string, body: Body, line: number): RowInput {
  const { input, dimensions, encoding_format: format } = body;
  const encoding = format ?? 'float';
  if (encoding !== 'float' && encoding !== 'base64')
    throw new RowError('invalid-parameter', `body.encoding_format: found ${found(encoding)}, expected float or base64`);
  if (typeof input !== 'string' && !Array.isArray(input))
    throw new RowError(
      'invalid-row',
      `body.input: found ${found(input)}, expected a text, a list of one, or token ids`,
    );
  checkKnown(body, EMBEDDING_FIELDS);
  const row = parseRow({ id, ...promptOf('input', input) }, line, false);
  // What is no number is refused where the others are that the model has not.
  return (dimensions ?? undefined) === undefined || 'error' in row ? row : { ...row, dimensions: dimensions as number };
}

/** @throws RowError */
function checkUrl(url: unknown, task: JobTaskName): void {
  const expected = URLS[task];
  if (expected.some((each) => each === url)) return;
  const other = Object.entries(URLS).find(([, urls]) => urls.some((each) => each === url))?.[0];
  const remedy = other === undefined ? '' : `; spillway ${other} answers ${String(url)}`;
  throw new RowError(
    'invalid-row',
    `url: found ${found(url)}, expected ${expected.join(' or ') || `rows of another format, as requests ask nobody to ${task}`}${remedy}`,
  );
}

function checkSupported(body: Body, handled: readonly string[]): void {
  const refused = REFUSED.find(
    (name) => Object.hasOwn(body, name) && !handled.includes(name) && !isOff(name, body[name]),
  );
  if (refused !== undefined) {
    const where = handled.length === 0 ? ' in batch files' : '';
    throw new RowError(
      'invalid-parameter',
      `body.${refused}: found ${found(body[refused])}, which is not supported${where}, expected none`,
    );
  }
  checkKnown(body, handled.length === 0 ? NEUTRAL : new Set([...NEUTRAL, ...handled]));
}

/** @throws RowError for a field that is not known, and not off */
function checkKnown(body: Body, known: ReadonlySet<string>): void {
  const unknown = Object.keys(body).find(
    (name) =>
      !known.has(name) && !isOff(name, body[name]) && !(Object.hasOwn(AS_EVER, name) && body[name] === AS_EVER[name]),
  );
  if (unknown !== undefined)
    throw new RowError(
      'invalid-parameter',
      `body: found the field ${found(unknown)}, which may change the answer and is not known here, expected any of ${[...known].join(', ')}${didYouMean(unknown, [...known])}`,
    );
}

function isOff(name: string, value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === 0 || value === '') return true;
  if (name === 'best_of') return value === 1;
  if (name === 'modalities') return Array.isArray(value) && value.every((kind) => kind === 'text');
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/**
 * Texts that stand in parts are put together; other parts are refused where rows are, by name. What OpenAI's newer
 * models call a developer's message is the system's to chat templates.
 */
function messagesOf({ messages }: Body): unknown {
  if (!Array.isArray(messages)) return messages;
  return messages.map((message: unknown) => {
    if (!isObject(message)) return message;
    const { role, content } = message;
    const texts = Array.isArray(content) ? content.map(textOfPart) : [undefined];
    return {
      ...message,
      ...(role === 'developer' && { role: 'system' }),
      ...(texts.every((text) => text !== undefined) && { content: texts.join('') }),
    };
  });
}

function textOfPart(part: unknown): string | undefined {
  const { type, text, refusal } = membersOf(part);
  const own = type === 'refusal' ? refusal : type === 'text' ? text : undefined;
  return typeof own === 'string' ? own : undefined;
}

/** A text, a list of one text, or tokens. */
function promptOf(name: string, prompt: unknown): Body {
  if (!Array.isArray(prompt)) return { prompt };
  const first: unknown = prompt[0];
  if (prompt.length === 1 && typeof first === 'string') return { prompt: first };
  if (prompt.length === 1 && Array.isArray(first)) return { tokens: first };
  if (prompt.length > 1 && prompt.every((each) => typeof each === 'string' || Array.isArray(each))) {
    throw new RowError(
      'invalid-row',
      `${name}: found ${prompt.length} texts, expected one: each has a request of its own`,
    );
  }
  return { tokens: prompt };
}

/** @throws RowError */
function parametersOf(body: Body): Body {
  const given = [
    ...Object.entries(PARAMETERS).map(([theirs, ours]) => [ours, body[theirs]] as const),
    ['templateArgs', templateArgsOf(body)] as const,
  ];
  // One answer is what there is anyway.
  return Object.fromEntries(
    given.filter(
      ([ours, value]) => !isAbsent(value) && !(ours === 'samples' && value === 1) && !isEmptyList(ours, value),
    ),
  );
}

/** Variables of the chat template; what is said of them there counts more. @throws RowError */
function templateArgsOf({ reasoning_effort: effort, chat_template_kwargs: given }: Body): unknown {
  if (isAbsent(effort)) return given;
  if (typeof effort !== 'string' || !Object.hasOwn(EFFORTS, effort))
    throw new RowError(
      'invalid-parameter',
      `body.reasoning_effort: found ${found(effort)}, expected one of ${Object.keys(EFFORTS).join(', ')}`,
    );
  return isAbsent(given) || isObject(given) ? { ...EFFORTS[effort], ...given } : given;
}

function isEmptyList(name: string, value: unknown): boolean {
  return name === 'tools' && Array.isArray(value) && value.length === 0;
}
