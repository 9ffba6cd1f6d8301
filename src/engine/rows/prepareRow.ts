import type { Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { isWithin, rangeWords, wholeRange, type NumberRange } from '../../arguments/NumberRange.js';
import { RowError } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row, SamplingOptions } from '../../Row.js';
import { checkValues } from '../../rows/checkValues.js';
import { responseFormatOf, type ResponseFormat } from '../../rows/responseFormat.js';
import type { HeldFormat } from '../grammar/formatText.js';
import type { LogitAdjustments } from '../grid/Device.js';
import { checkKnown, logitAdjustments, tokenLists } from './logitAdjustments.js';
import { type NUMBERS, promptField, SAMPLES, TOKEN_LISTS } from '../../rows/rowFields.js';
import { channelForm, type Channels } from '../tools/channelForm.js';
import { textFormat } from '../tools/heldText.js';
import { formedTools, heldTools } from '../tools/heldTools.js';
import { readable } from '../../rows/readableRow.js';
import { isConversation, tooManyTokens, type RowLimits } from './promptTokens.js';
import { retryPrompts, type Retry } from './retryPrompts.js';
import { fittedPrompt } from './truncate.js';

/** A row that has been checked and turned into tokens, with every parameter settled. */
export interface PreparedRow {
  readonly tokens: readonly number[];
  /** Tokens that were cut of the prompt. */
  readonly truncated?: number | undefined;
  /** Most new tokens: what was asked for, or what the model's context leaves. */
  readonly maxNewTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  /** As it was asked for, 53 bits: `generatorSeed` makes of it what chance is drawn by. */
  readonly seed: number;
  readonly stop: readonly string[];
  /** Tokens that end the row, beside the model's own end tokens. */
  readonly stopTokens: ReadonlySet<number>;
  /** Undefined for none. */
  readonly adjustments?: LogitAdjustments | undefined;
  /** The format that the answer is held to; undefined for anything. */
  readonly responseFormat?: HeldFormat | undefined;
  /** How its answer is read, which is held to nothing; undefined where it is one text. */
  readonly channels?: Channels | undefined;
  /** The retry of a row whose answer fails its format; undefined for an error. */
  readonly retry?: Retry | undefined;
  /** Which samples are wanted; undefined where none were asked for, and of each of them. */
  readonly samples?: readonly number[] | undefined;
}

/** Kernels have floats: what is above 0 must be so there, too. */
const LEAST_FLOAT = 2 ** -126;

/** More attempts than find an answer. */
const MOST_RETRIES = 1000;

type NumericOption = (typeof NUMBERS)[number];
/** The allowed values of each parameter, wherever it is said: in a row, an option or a flag. */
export const SAMPLING_RANGES: Readonly<Record<NumericOption, NumberRange & { readonly fallback: number }>> = {
  maxNewTokens: { ...wholeRange(1, 2 ** 31 - 1), fallback: 128 },
  // Far above the 2 of others. At 10 tokens are about as likely as each other: more is no temperature of a model.
  temperature: { least: 0, most: 10, fallback: 0 },
  topP: { least: 0, above: true, most: 1, fallback: 1 },
  topK: { ...wholeRange(0, 2 ** 31 - 1), fallback: 0 },
  minP: { least: 0, most: 1, fallback: 0 },
  repetitionPenalty: { least: 0, above: true, most: 1e6, fallback: 1 },
  presencePenalty: { least: -2, most: 2, fallback: 0 },
  frequencyPenalty: { least: -2, most: 2, fallback: 0 },
  minNewTokens: { ...wholeRange(0, 2 ** 31 - 1), fallback: 0 },
  seed: { ...wholeRange(0), fallback: 0 },
  samples: { ...SAMPLES, fallback: 1 },
  retries: { ...wholeRange(0, MOST_RETRIES), fallback: 0 },
  retryTemperature: { least: 0, most: 10, fallback: 0.7 },
};

/** The value of a sampling option, checked; the row's own, else the run's, else the default. @throws RowError */
export function setting(name: NumericOption, row: SamplingOptions, defaults: SamplingOptions): number {
  const range = SAMPLING_RANGES[name];
  const value: unknown = row[name] ?? defaults[name] ?? range.fallback;
  if (!isWithin(value, range))
    throw new RowError('invalid-parameter', `${name}: found ${found(value)}, expected ${rangeWords(range, value)}`);
  return value;
}

/** Checks the options of a whole run once. @throws RowError naming the option */
export function checkSampling(options: SamplingOptions): void {
  for (const name of Object.keys(SAMPLING_RANGES) as NumericOption[]) setting(name, {}, options);
  seedOfSamples({}, options);
  stopStrings(options.stop);
  tokenLists(options);
}

/**
 * The seed of a row's first sample, to which the number of each is added, and of each attempt. @throws RowError where
 * that is too much
 */
function seedOfSamples(row: SamplingOptions, defaults: SamplingOptions): number {
  const [seed, samples] = [setting('seed', row, defaults), setting('samples', row, defaults)];
  const retries = setting('retries', row, defaults);
  const most = Number.MAX_SAFE_INTEGER - (samples - 1) - retries;
  if (seed <= most) return seed;
  throw new RowError(
    'invalid-parameter',
    `seed: found ${seed}, to which the numbers of ${samples} samples${retries > 0 ? ` and ${retries} retries` : ''} are added, expected at most ${most}`,
  );
}

/** The 53 bits of a seed folded into the generator's 32; small seeds stay what they are. Pure. */
export function generatorSeed(seed: number): number {
  return (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
}

/** Finds the format that a row's answer is held to: the row's own, else the run's. @throws RowError */
export function heldFormat(
  row: Pick<Row, 'responseFormat'>,
  options: Pick<GenerateOptions, 'responseFormat'>,
): Exclude<ResponseFormat, { readonly type: 'text' }> | undefined {
  const given: unknown = row.responseFormat ?? options.responseFormat;
  const format = given === undefined || given === null ? undefined : readable(() => responseFormatOf(given));
  return format?.type === 'text' ? undefined : format;
}

/** Checks a row and encodes its prompt; stops on the way through a long text. @throws RowError */
export function* prepareRow(
  row: Row,
  options: GenerateOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): Work<PreparedRow> {
  checkValues(row, ROW_LIMITS.conversationValues);
  const known = bringsParameters(row)
    ? undefined
    : (knownParameters(options, tokenizer, limits) ?? (yield* runParameters(options, tokenizer, limits)));
  const asked = known?.asked ?? setting('maxNewTokens', row, options);
  const format = heldFormat(row, options);
  const tools = formedTools(row, options, tokenizer);
  if (tools) yield;
  if (tools) checkCalling(row, options, tokenizer);
  const text = tools && format ? textFormat(format) : undefined;
  const parameters =
    (tools ? undefined : known) ?? (yield* parametersOf(row, options, tokenizer, limits, tools, asked));
  const { minNewTokens, badWords } = parameters;
  if ((format ?? tools) && (minNewTokens > 0 || badWords > 0))
    throw new RowError(
      'invalid-parameter',
      `${badWords > 0 ? 'badWords' : 'minNewTokens'}: found it beside ${tools ? 'tools' : 'a responseFormat'}, which may need just the tokens that it forbids, expected one of them`,
    );
  const samples = row.samples ?? options.samples;
  const settled = {
    ...parameters.settled,
    samples: samples === undefined ? undefined : wantedSamples(row.wantedSamples, setting('samples', row, options)),
  };
  const { contextTokens } = limits;
  // The last sampled token is never computed, so it needs no position.
  const behind = keptForAnswer(asked, contextTokens) - 1;
  const { tokens, truncated } = yield* fittedPrompt(row, options, tokenizer, limits, {
    most: contextTokens,
    room: contextTokens - behind,
  });
  const room = contextTokens - tokens.length + 1;
  if (room < 1) throw tooManyTokens(tokens.length, contextTokens);
  const responseFormat = tools ? heldTools(tools, tokens, tokenizer, options.reasoning ?? 'keep', text) : format;
  const maxNewTokens = Math.min(asked, room);
  const retries = known?.retries ?? setting('retries', row, options);
  const retryTemperature = known?.retryTemperature ?? setting('retryTemperature', row, options);
  // What is held to nothing cannot fail.
  const retry =
    retries > 0 && responseFormat
      ? {
          most: retries,
          temperature: retryTemperature,
          ...retryPrompts({ tokens, truncated, maxNewTokens }, row, options, tokenizer, limits),
        }
      : undefined;
  const channels = responseFormat ? undefined : channelForm(tokens, tokenizer);
  return { ...settled, tokens, truncated, responseFormat, maxNewTokens, retry, ...(channels && { channels }) };
}

/** Tokens that a prompt which is made to fit leaves for the answer: at most half of the context. */
export function keptForAnswer(asked: number, contextTokens: number): number {
  return Math.min(asked, Math.max(1, Math.floor(contextTokens / 2)));
}

/** The parameters of a row beside its prompt and the format that its answer is held to. */
interface Parameters {
  readonly minNewTokens: number;
  /** How many there are. */
  readonly badWords: number;
  readonly settled: Pick<
    PreparedRow,
    'temperature' | 'topP' | 'topK' | 'minP' | 'repetitionPenalty' | 'seed' | 'stop' | 'stopTokens' | 'adjustments'
  >;
}

/** The parameters of rows that bring none of their own, of a run with a model. */
interface RunParameters extends Parameters {
  readonly tokenizer: Tokenizer;
  readonly vocabularySize: number;
  readonly asked: number;
  readonly retries: number;
  readonly retryTemperature: number;
}

const OF_RUNS = new WeakMap<GenerateOptions, RunParameters>();
const PARAMETERS: ReadonlySet<string> = new Set([...Object.keys(SAMPLING_RANGES), 'stop', ...TOKEN_LISTS]);

function bringsParameters(row: Row): boolean {
  // A row has few fields: fewer than there are parameters.
  return Object.entries(row).some(([name, value]) => PARAMETERS.has(name) && (value ?? undefined) !== undefined);
}

function knownParameters(
  options: GenerateOptions,
  tokenizer: Tokenizer,
  { vocabularySize }: RowLimits,
): RunParameters | undefined {
  const known = OF_RUNS.get(options);
  return known?.tokenizer === tokenizer && known.vocabularySize === vocabularySize ? known : undefined;
}

/** Finds out, once, the parameters of rows that bring none of their own; undefined where those are wrong. */
function* runParameters(
  options: GenerateOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): Work<RunParameters | undefined> {
  try {
    const asked = setting('maxNewTokens', {}, options);
    const parameters = {
      ...(yield* parametersOf({}, options, tokenizer, limits, undefined, asked)),
      tokenizer,
      vocabularySize: limits.vocabularySize,
      asked,
      retries: setting('retries', {}, options),
      retryTemperature: setting('retryTemperature', {}, options),
    };
    OF_RUNS.set(options, parameters);
    return parameters;
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    return undefined;
  }
}

/** @param asked most new tokens @throws RowError */
function* parametersOf(
  row: SamplingOptions,
  options: GenerateOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
  tools: ReturnType<typeof formedTools>,
  asked: number,
): Work<Parameters> {
  const { stop, stopTokens } = stops(row.stop ?? options.stop, tokenizer);
  const lists = tokenLists({
    logitBias: row.logitBias ?? options.logitBias,
    stopTokenIds: row.stopTokenIds ?? options.stopTokenIds,
    badWords: row.badWords ?? options.badWords,
  });
  lists.stopTokenIds.forEach((id, at) => {
    checkKnown(`stopTokenIds[${at}]`, id, limits.vocabularySize);
    stopTokens.add(id);
  });
  for (const text of tools?.form.stops ?? []) {
    const id = tokenizer.controlToken(text);
    if (id !== undefined) stopTokens.add(id);
  }
  const adjusting = {
    ...lists,
    presencePenalty: setting('presencePenalty', row, options),
    frequencyPenalty: setting('frequencyPenalty', row, options),
    minNewTokens: checkedLeast(setting('minNewTokens', row, options), asked),
  };
  const settled = {
    temperature: setting('temperature', row, options),
    topP: Math.max(LEAST_FLOAT, setting('topP', row, options)),
    topK: Math.min(setting('topK', row, options), limits.vocabularySize),
    minP: setting('minP', row, options),
    repetitionPenalty: Math.max(LEAST_FLOAT, setting('repetitionPenalty', row, options)),
    seed: seedOfSamples(row, options),
    stop,
    stopTokens,
    adjustments: yield* logitAdjustments(
      adjusting,
      new Set([...tokenizer.endTokens, ...stopTokens]),
      tokenizer,
      limits.vocabularySize,
    ),
  };
  return { minNewTokens: adjusting.minNewTokens, badWords: lists.badWords.length, settled };
}

/** Checks that a row that says it may call tools may do so. @throws RowError */
function checkCalling(row: Row, options: GenerateOptions, tokenizer: Tokenizer): void {
  const given = options.promptTemplate === undefined && promptField(row) === 'tokens';
  if (!given && !isConversation(row, options, tokenizer))
    throw new RowError(
      'invalid-parameter',
      'tools: found them beside a prompt that is raw text, in which the model is not told of them, expected messages, chat: true, or tokens that a chat template has made',
    );
}

/** Distinct numbers below the count, in order. @throws RowError */
function wantedSamples(wanted: unknown, count: number): readonly number[] {
  if (wanted === undefined || wanted === null) return Array.from({ length: count }, (_, sample) => sample);
  return readable(() => {
    const given = Array.isArray(wanted) ? [...new Set(wanted as unknown[])] : [undefined];
    if (given.length > 0 && given.every((sample): sample is number => isWithin(sample, wholeRange(0, count - 1))))
      return given.toSorted((a, b) => a - b);
    throw new RowError(
      'invalid-parameter',
      `wantedSamples: found ${found(wanted)}, expected an array of whole numbers from 0 to ${count - 1}`,
    );
  });
}

/** @throws RowError */
function checkedLeast(minNewTokens: number, maxNewTokens: number): number {
  if (minNewTokens <= maxNewTokens) return minNewTokens;
  throw new RowError(
    'invalid-parameter',
    `minNewTokens: found ${minNewTokens}, expected a whole number from 0 to ${maxNewTokens}, the row's maxNewTokens`,
  );
}

/** Stop strings in their two kinds: control tokens never show in a text, so they are found by their ids. */
function stops(
  given: unknown,
  tokenizer: Tokenizer,
): { readonly stop: readonly string[]; readonly stopTokens: Set<number> } {
  const stop: string[] = [];
  const stopTokens = new Set<number>();
  for (const text of stopStrings(given)) {
    const control = tokenizer.controlToken(text);
    if (control === undefined) stop.push(text);
    else stopTokens.add(control);
  }
  return { stop, stopTokens };
}

function stopStrings(stop: unknown): readonly string[] {
  if (stop === undefined || stop === null) return [];
  const { stopStrings: most, stopUnits } = ROW_LIMITS;
  return readable(() => {
    const given: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
    if (given.length > most)
      throw new RowError('limit', `stop: found ${given.length} strings, expected at most ${most}`);
    let units = 0;
    return Array.from(given, (text, at) => {
      if (typeof text !== 'string' || text.length === 0)
        throw new RowError(
          'invalid-parameter',
          `${Array.isArray(stop) ? `stop[${at}]` : 'stop'}: found ${found(text)}, expected a string that is not empty`,
        );
      units += text.length;
      if (units > stopUnits)
        throw new RowError(
          'limit',
          `stop: found strings of more than ${stopUnits} UTF-16 units together, expected at most so many`,
        );
      return text;
    });
  });
}
