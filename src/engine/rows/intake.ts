import { inTurns } from '../../collections/inTurns.js';
import { Turns } from '../../collections/Turns.js';
import { ResponseFormatError, RowError } from '../../errors/RowError.js';
import type { GeneratedAnswer } from '../../KeptAnswer.js';
import { StopLists } from '../../model/StopStrings.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, RowDelta, RowInput, RowResult } from '../../Row.js';
import { duplicateId, failedResult } from '../../rows/failedResult.js';
import { withValue, type AnswerFormat } from '../grammar/AnswerFormat.js';
import type { ReadAnswer } from '../tools/withCalls.js';
import type { HeldFormat } from '../grammar/formatText.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RowLimit } from '../memory/PagePool.js';
import { acceptedRows } from './acceptedRows.js';
import { ActiveRow, type RowIdentity } from './ActiveRow.js';
import { checkRoomAfter } from './answerTasks.js';
import { ChosenRow } from './ChosenRow.js';
import type { InFlight } from './InFlight.js';
import { heldBytes, logprobBytes, tokenBytes } from '../../rows/heldBytes.js';
import { mostLogprobs } from './logprobLimit.js';
import { askedTools } from '../../rows/tools.js';
import { callableTools } from '../tools/callableTools.js';
import { generatorSeed, heldFormat, prepareRow, type PreparedRow } from './prepareRow.js';
import type { RowLimits } from './promptTokens.js';
import { RetriedRow, type Attempts } from './RetriedRow.js';
import { TOLD_TOKENS } from './retryPrompts.js';
import { deltaOf } from './RowDeltas.js';
import { rowKey } from './rowKey.js';
import { rowLimitWords } from './rowLimitWords.js';
import type { HeldRow, Outcome, SharedAnswers } from './SharedAnswers.js';

export interface IntakeSetup {
  readonly options: GenerateOptions;
  readonly tokenizer: Tokenizer;
  readonly limits: RowLimits;
  /** The longest row that the KV cache holds; it may become less. */
  readonly rowLimit: () => RowLimit;
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  /** Gets the rows that need no computing. */
  readonly answers: SharedAnswers<'generate', RowResult>;
  /** The engine's, as one word: answers are kept under it. */
  readonly resultIdentity: string;
  /** Nobody waits for rows any more. */
  readonly ended?: AbortSignal | undefined;
  /** Makes the format that answers are held to. @throws ResponseFormatError */
  readonly answerFormat: (format: HeldFormat) => Promise<AnswerFormat>;
  /** Makes more of the values of rows that bring no format of their own. */
  readonly refine?: ((read: ReadAnswer) => ReadAnswer) | undefined;
}

/**
 * Turns rows of input into rows of a run, one at a time as they are pulled: checks, numbers and encodes them. A bad row
 * goes to `answers` as a finished result, and so does one that is equal to another of this run, or of an earlier one;
 * the others are unaffected. That its id is an earlier row's is said of a row that has no other fault.
 */
export async function* intake(
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  setup: IntakeSetup,
): AsyncGenerator<ActiveRow | ChosenRow | RetriedRow, void, undefined> {
  const { options, tokenizer, limits, inFlight, recorder, answers } = setup;
  const rules = {
    ignoreEos: options.ignoreEos ?? false,
    logprobs: options.logprobs,
    reasoning: options.reasoning,
    timeout: options.rowTimeout,
    confidence: options.confidence ?? false,
  };
  // Rows are asked for at once: a source that does not wait would give them to nobody while a format is compiled.
  const accepted = begun(acceptedRows(rows, setup));
  // What is wrong with the format of all rows is found before one of them is looked at.
  const runs = heldFormat({}, options);
  if (runs) await setup.answerFormat(runs);
  if (options.tools !== undefined) await callableTools(askedTools({}, options)?.tools ?? []);
  const parts = { signal: setup.ended, part: <T>(run: () => T): T => recorder.timed(run) };
  const stopLists = new StopLists();
  const turns = new Turns();
  const tell = recorder.deltas;
  /** The sequence number of the results. */
  let sequence = 0;
  for await (const { input, identity, duplicate, hold } of accepted) {
    try {
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      const work = inTurns(prepareRow(input, options, tokenizer, limits), parts);
      const prepared = work instanceof Promise ? await work : work;
      const { retry } = prepared;
      const held = Math.min(
        prepared.tokens.length + prepared.maxNewTokens - 1 + (retry ? TOLD_TOKENS : 0),
        Math.max(limits.contextTokens, prepared.tokens.length),
      );
      const limit = setup.rowLimit();
      if (held > limit.tokens) {
        throw new RowError(
          'memory',
          `the row may need ${held} tokens of KV cache, ${rowLimitWords(limit)}, or fewer maxNewTokens`,
        );
      }
      const own = input.responseFormat !== undefined && input.responseFormat !== null;
      const format =
        prepared.responseFormat &&
        refined(await setup.answerFormat(prepared.responseFormat), own ? undefined : setup.refine);
      const choices = takesLikeliest(prepared) ? await format?.choices?.() : undefined;
      if (choices) checkRoomAfter(prepared.tokens, choices.longest, setup);
      if (duplicate) throw new RowError('duplicate-id', duplicateId(identity.id).message);
      const kept = retry ? heldBytes(input, inFlight.mostBytes, input.carry) + tokenBytes({ length: TOLD_TOKENS }) : 0;
      inFlight.settle(hold, tokenBytes(prepared.tokens) + kept);
      const aside = logprobBytes(mostLogprobs(prepared.maxNewTokens, rules.logprobs));
      const { samples, truncated, ...whole } = prepared;
      recorder.prompt(prepared.tokens, truncated);
      const stops = whole.stop.length > 0 ? stopLists.of(whole.stop) : undefined;
      for (const [nth, sample] of (samples ?? [undefined]).entries()) {
        if (nth > 0) await inFlight.enterAgain(aside);
        if (turns.due) await turns.give();
        inFlight.expect(sequence, hold, aside);
        const row = {
          ...identity,
          sequence: sequence++,
          ...(sample !== undefined && { sample }),
          ...(truncated !== undefined && { truncated }),
        };
        const seed = whole.seed + (sample ?? 0);
        const one = { ...whole, seed: generatorSeed(seed) };
        // Which attempt is the last may depend on what a program's schema makes of answers, which has no key.
        const keyed = answers.needsKeys && !(retry && setup.refine && !own);
        const key = keyed ? recorder.timed(() => rowKey(one, rules, setup.resultIdentity)) : undefined;
        if (key !== undefined && (await answers.has(key, heldRow(row, one, format, tell)))) continue;
        const onAnswer = (result: RowResult): void => {
          if (key !== undefined) answers.answered(key, outcomeOf(result));
        };
        const active: Attempts['row'] = (attempt, counter, answered, over) => {
          // What attempts say that are not the last is no part of the answer.
          const grows = retry ? undefined : tell;
          const sampled = new ActiveRow(row, attempt, tokenizer, rules, counter, answered, format, stops, grows);
          return choices && takesLikeliest(attempt)
            ? new ChosenRow(attempt.tokens, choices, sampled, rules.logprobs, over, rules.confidence)
            : sampled;
        };
        yield retry
          ? new RetriedRow({
              prepared: one,
              retry,
              seed,
              row: active,
              counter: recorder,
              onAnswer,
              onResult: teller(row, tell),
              made: (work) => inTurns(work, parts),
            })
          : active(one, recorder, onAnswer, (ended) => ended);
      }
    } catch (error) {
      const code =
        error instanceof RowError
          ? error.rowCode
          : error instanceof ResponseFormatError
            ? 'unsupported-schema'
            : undefined;
      if (code === undefined) throw error;
      recorder.row(true);
      inFlight.settle(hold, 0);
      inFlight.expect(sequence, hold);
      answers.refused({
        sequence: sequence++,
        result: failedResult(identity, { code, message: (error as Error).message }, input.carry),
      });
    }
  }
  answers.inputOver();
}

/** Asks a generator for its first value before it is iterated. */
function begun<T>(values: AsyncGenerator<T, void, undefined>): AsyncGenerator<T, void, undefined> {
  const first = values.next();
  // Whoever iterates hears of it.
  first.catch(() => undefined);
  return (async function* () {
    try {
      const step = await first;
      if (step.done !== true) yield step.value;
      yield* values;
    } finally {
      await values.return();
    }
  })();
}

/** Tells whether a row that is held to choices has the likeliest, as the model has it, and none is drawn or changed. */
function takesLikeliest({ temperature, repetitionPenalty, adjustments }: PreparedRow): boolean {
  return temperature === 0 && repetitionPenalty === 1 && !adjustments;
}

function refined(format: AnswerFormat, refine: IntakeSetup['refine']): AnswerFormat {
  return refine === undefined ? format : { ...format, read: (text) => refine(format.read(text)) };
}

function heldRow(
  { id, index, sample, truncated, sequence, carry }: RowIdentity,
  { tokens: { length: promptTokens } }: Pick<PreparedRow, 'tokens'>,
  format: AnswerFormat | undefined,
  tell: ((delta: RowDelta) => void) | undefined,
): HeldRow<'generate', RowResult> {
  const told = teller({ id, index, ...(sample !== undefined && { sample }) }, tell);
  return {
    sequence,
    usage: ({ tokens }) => ({ promptTokens, completionTokens: tokens.length }),
    result: (outcome) => {
      const result = withValue(
        {
          id,
          index,
          ...(sample !== undefined && { sample }),
          ...membersOfResult(outcome),
          ...(truncated !== undefined && { truncated }),
          ...(carry && { carry }),
        },
        format,
      );
      told(result);
      return result;
    },
  };
}

/** Tells of an answer as a whole. */
function teller(
  identity: Pick<RowIdentity, 'id' | 'index' | 'sample'>,
  tell: ((delta: RowDelta) => void) | undefined,
): (result: RowResult) => void {
  return ({ text, tokens, reasoning, toolCalls = [] }) => {
    if (text === '' && tokens.length === 0) return;
    const calls = toolCalls.map(({ id, function: called }, at) => ({ index: at, id, ...called }));
    tell?.(deltaOf(identity, { text, ...(reasoning !== undefined && { reasoning }), toolCalls: calls }, [...tokens]));
  };
}

function membersOfResult(outcome: Outcome<'generate'>): Omit<RowResult, 'id' | 'index'> {
  const { usage } = outcome;
  return 'answer' in outcome
    ? { ...outcome.answer, usage }
    : { text: '', tokens: [], finishReason: 'error', ...outcome.beside, usage, error: outcome.error };
}

/** Without its value: each row reads its own, which may be whatever a schema makes of it. */
function outcomeOf({
  text,
  reasoning,
  tokens,
  finishReason,
  logprobs,
  attempts,
  confidence,
  leastConfidence,
  fieldConfidence,
  usage,
  error,
}: RowResult): Outcome<'generate'> {
  const told = {
    text,
    ...(reasoning !== undefined && { reasoning }),
    tokens,
    ...(logprobs && { logprobs }),
    ...(attempts !== undefined && { attempts }),
    ...(confidence !== undefined && { confidence }),
    ...(leastConfidence !== undefined && { leastConfidence }),
    ...(fieldConfidence && { fieldConfidence }),
  };
  return error ? { error, beside: told, usage } : { answer: { ...told, finishReason } as GeneratedAnswer, usage };
}
