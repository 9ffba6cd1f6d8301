import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { number, oneOf, size, text, whole } from '../../arguments/memberChecks.js';
import { isIterable, membersOf } from '../../arguments/isObject.js';
import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import { REASONING, TRUNCATIONS, type SamplingOptions } from '../../Row.js';
import { checkPromptTemplate } from '../../rows/promptTemplate.js';
import { checkResponseFormat } from '../../rows/responseFormat.js';
import { checkChunkOptions, checkMerge } from '../../rows/chunks.js';
import { checkAskedOptions, settledQuestions } from '../../rows/questions.js';
import { ROW_SECONDS } from '../../rows/rowFields.js';
import { checkTemplateInput } from '../../rows/templateInput.js';
import type { ToolChoice } from '../../rows/toolCalls.js';
import { checkToolOptions } from '../../rows/tools.js';
import { zodJsonSchema, type AnswerSchema } from '../../schema/zodJsonSchema.js';
import { checkPeers } from '../peers/checkPeers.js';
import type { FollowOptions, RunOptions } from './Generation.js';
import { checkSampling } from './prepareRow.js';
import { ROWS_AHEAD, type RowLookAhead } from './rowLookAhead.js';
import { isObservable } from 'rxjs';

/** Checks a parameter: a row's fault in a row is an option's in a run's options. */
const sampling: Check = (name, value) => {
  try {
    checkSampling({ [name]: value });
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message) : error;
  }
};

const SAMPLING_CHECKS: Readonly<Record<keyof SamplingOptions, Check>> = {
  maxNewTokens: sampling,
  temperature: sampling,
  topP: sampling,
  topK: sampling,
  minP: sampling,
  repetitionPenalty: sampling,
  presencePenalty: sampling,
  frequencyPenalty: sampling,
  minNewTokens: sampling,
  logitBias: sampling,
  stopTokenIds: sampling,
  badWords: sampling,
  seed: sampling,
  stop: sampling,
  samples: sampling,
  retries: sampling,
  retryTemperature: sampling,
};

const FOLLOW_CHECKS: Readonly<Record<keyof FollowOptions, Check>> = {
  pipeline: checkFunction,
  window: whole(1),
  signal: checkSignal,
  onProgress: checkFunction,
  onStats: checkFunction,
  onTrace: checkFunction,
};

const LOOK_AHEAD_CHECKS: Readonly<Record<keyof RowLookAhead, Check>> = {
  rows: whole(ROWS_AHEAD.least, ROWS_AHEAD.most),
  bytes: size,
};

/** The check of each option of a run. */
export const RUN_CHECKS: Readonly<Record<keyof RunOptions, Check>> = {
  ...SAMPLING_CHECKS,
  ...FOLLOW_CHECKS,
  ignoreEos: checkBoolean,
  rowTimeout: number(ROW_SECONDS),
  logprobs: whole(0),
  confidence: checkBoolean,
  escapeSpecialTokens: checkBoolean,
  promptTemplate: checkPromptTemplate,
  system: text(),
  chat: checkBoolean,
  truncate: oneOf(...TRUNCATIONS),
  tools: (_name, tools) => {
    checkTemplateInput({ tools: tools as readonly unknown[] });
  },
  toolChoice: (_name, toolChoice) => {
    checkToolOptions({ toolChoice: toolChoice as ToolChoice });
  },
  parallelToolCalls: checkBoolean,
  templateArgs: (_name, templateArgs) => {
    checkTemplateInput({ templateArgs: templateArgs as Readonly<Record<string, unknown>> });
  },
  now: checkNow,
  reasoning: oneOf(...REASONING),
  responseFormat: checkResponseFormat,
  schemaInPrompt: checkBoolean,
  questions: (name, questions) => {
    settledQuestions(name, questions);
  },
  chunkTokens: whole(1),
  chunkOverlap: whole(0),
  merge: checkMerge,
  schema: (_name, schema) => {
    zodJsonSchema(schema as AnswerSchema);
  },
  onDelta: checkFunction,
  order: oneOf('input', 'completion'),
  schedule: checkSchedule,
  sharePrefixes: checkBoolean,
  lookAhead: (name, value) => {
    checkMembers(name, value, LOOK_AHEAD_CHECKS, `${name}.`);
  },
  priority: whole(-1e6, 1e6),
  reuse: checkStore,
  peers: (_name, value) => {
    checkPeers(value);
  },
  microBatches: whole(1),
};

function checkNow(name: string, value: unknown): void {
  if (value === null) return;
  if (!(value instanceof Date || typeof value === 'string') || Number.isNaN(new Date(value).getTime()))
    throw new UsageError(`${name}: found ${found(value)}, expected a date, such as 2026-11-29T12:00:00Z`);
}

/**
 * Checks the options of a run before anything is read. @throws UsageError naming the option, what was found and what
 * was expected
 */
export function checkRunOptions(options: unknown, vocabularySize: number): void {
  checkMembers('options', options, RUN_CHECKS);
  const { logprobs, schema, responseFormat, tools, toolChoice } = options as RunOptions;
  if ((tools ?? toolChoice) !== undefined) checkToolOptions(options);
  checkAskedOptions(options);
  checkChunkOptions(options);
  if (schema !== undefined && responseFormat !== undefined)
    throw new UsageError('found both schema and responseFormat, expected one of them');
  if (logprobs !== undefined && logprobs > vocabularySize)
    throw new UsageError(
      `logprobs: found ${logprobs}, expected a whole number from 0 to ${vocabularySize}, the vocabulary`,
    );
}

/** The same for a run that follows another engine's. @throws UsageError */
export function checkFollowOptions(options: unknown): void {
  checkMembers('options', options, FOLLOW_CHECKS);
}

function checkStore(name: string, value: unknown): void {
  const { get, put } = membersOf(value);
  if (typeof get !== 'function' || typeof put !== 'function')
    throw new UsageError(
      `${name}: found ${found(value)}, expected a store of answers, such as ReuseFile.open() resolves to`,
    );
}

/** @throws UsageError for what is no schedule */
export function checkSchedule(name: string, value: unknown): void {
  const { start, free, next } = membersOf(value);
  if ([start, free, next].every((each) => typeof each === 'function')) return;
  throw new UsageError(
    `${name}: found ${found(value)}, expected a Schedule, such as rowByRow(), zigZagBlock() or diagonalBlock() returns`,
  );
}

/** Checks that rows can be had from it, before anything is read. @throws UsageError */
export function checkRows(rows: unknown): void {
  if (!isIterable(rows) && !isObservable(rows))
    throw new UsageError(
      `rows: found ${found(rows)}, expected an array or another iterable, an async iterable, a ReadableStream or an Observable of rows; one row alone goes as [row]`,
    );
}

/** Tells whether a call may join others: how its run is composed, and what is traced of it, is nobody's but its own. */
export function joins({ schedule, pipeline, window, peers, microBatches, onTrace }: RunOptions): boolean {
  return [schedule, pipeline, window, peers, microBatches, onTrace].every((own) => own === undefined);
}
