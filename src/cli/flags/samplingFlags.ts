import { Option, type Command } from 'commander';
import { decimal, stopString, tokenBiases, wholeNumber, wholeNumbers, type FlagParser } from './parsers.js';
import { addSwitch, gathering } from './commandFlags.js';
import { type GenerateOptions, RUN_OPTIONS as RANGES, type SamplingOptions } from '../library.js';

export interface SamplingFlags {
  readonly maxNewTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly minNewTokens?: number;
  readonly logitBias?: Readonly<Record<string, number>>;
  readonly stopTokenIds?: readonly number[];
  readonly badWords?: readonly string[];
  readonly seed: number;
  readonly samples?: number;
  readonly retries?: number;
  readonly retryTemperature?: number;
  readonly stop?: readonly string[];
  readonly ignoreEos: boolean;
  readonly logprobs?: number;
}

/** Whoever asks a server and does not say how long an answer may be expects a whole one. */
const SERVED_NEW_TOKENS = 1024;

/** The parser of what a row may say likewise. */
function numeric(name: keyof typeof RANGES & keyof SamplingOptions): FlagParser<number> {
  const range = RANGES[name];
  return range.whole ? wholeNumber(range.least, range.most) : decimal(range);
}

/** @param served whether they are for requests, each of which says itself what it wants beside the text */
export function addSamplingFlags(command: Command, served = false): void {
  command.optionsGroup(
    served ? 'Sampling, where a request says nothing:' : 'Sampling (a row may override all but the last two):',
  );
  command.option(
    '--max-new-tokens <n>',
    `most new tokens ${served ? 'of an answer' : 'a row'}`,
    numeric('maxNewTokens'),
    served ? SERVED_NEW_TOKENS : RANGES.maxNewTokens.fallback,
  );
  command.option('--temperature <t>', '0 is greedy', numeric('temperature'), RANGES.temperature.fallback);
  command.option(
    '--top-p <p>',
    'keep the most likely tokens up to this probability in all; 1 keeps all',
    numeric('topP'),
    RANGES.topP.fallback,
  );
  command.option(
    '--top-k <n>',
    'keep this many of the most likely tokens; 0 keeps all',
    numeric('topK'),
    RANGES.topK.fallback,
  );
  command.option(
    '--min-p <p>',
    'keep tokens at least this fraction as likely as the best; 0 keeps all',
    numeric('minP'),
    RANGES.minP.fallback,
  );
  command.option(
    '--repetition-penalty <f>',
    'makes tokens that the row has already less likely; 1 is off',
    numeric('repetitionPenalty'),
    RANGES.repetitionPenalty.fallback,
  );
  command.option(
    '--presence-penalty <f>',
    'is taken from the logits of tokens that the answer has already (default: 0, off)',
    numeric('presencePenalty'),
  );
  command.option(
    '--frequency-penalty <f>',
    'is taken from them for each time that they are there (default: 0, off)',
    numeric('frequencyPenalty'),
  );
  command.option(
    '--min-new-tokens <n>',
    'no token ends the answer before so many (default: 0)',
    numeric('minNewTokens'),
  );
  command.option(
    '--logit-bias <list>',
    'what is added to the logits of tokens, as ID=BIAS,… from -100 to 100, e.g. 42=-100 (default: none)',
    tokenBiases,
  );
  command.option(
    '--stop-token-ids <ids>',
    'list with commas: tokens that end the answer, beside the end token (default: none)',
    wholeNumbers(0),
  );
  command.addOption(
    gathering(
      new Option(
        '--bad-words <string>',
        'text that does not come; may be given several times (default: none)',
      ).argParser(stopString),
    ),
  );
  command.option(
    '--seed <n>',
    'of the random numbers; the same seed gives the same output',
    numeric('seed'),
    RANGES.seed.fallback,
  );
  if (!served)
    command.option(
      '--samples <n>',
      "answers a row, each with a seed of its own: the row's and 0, 1, 2 … added (default: one)",
      numeric('samples'),
    );
  command.option(
    '--retries <n>',
    'how often an answer that fails its schema is tried again, with another seed, and told what was wrong (default: 0)',
    numeric('retries'),
  );
  command.option(
    '--retry-temperature <t>',
    `of further attempts (default: ${RANGES.retryTemperature.fallback})`,
    numeric('retryTemperature'),
  );
  command.addOption(
    gathering(
      new Option(
        '--stop <string>',
        'end a row before this string; may be given several times (default: none)',
      ).argParser(stopString),
    ),
  );
  addSwitch(command, '--ignore-eos', 'go on past the end token, to --max-new-tokens');
  if (!served)
    command.option(
      '--logprobs <k>',
      'report the log-probability of each token and of k alternatives (default: none)',
      wholeNumber(0),
    );
}

/** Turns the flags into `generate` options. */
export function samplingOptions(flags: SamplingFlags): GenerateOptions {
  const {
    stop,
    samples,
    retries,
    retryTemperature,
    logprobs,
    presencePenalty,
    frequencyPenalty,
    minNewTokens,
    logitBias,
    stopTokenIds,
    badWords,
  } = flags;
  const { maxNewTokens, temperature, topP, topK, minP, repetitionPenalty, seed, ignoreEos } = flags;
  return {
    maxNewTokens,
    temperature,
    topP,
    topK,
    minP,
    repetitionPenalty,
    seed,
    ignoreEos,
    ...(stop === undefined ? {} : { stop }),
    ...(presencePenalty === undefined ? {} : { presencePenalty }),
    ...(frequencyPenalty === undefined ? {} : { frequencyPenalty }),
    ...(minNewTokens === undefined ? {} : { minNewTokens }),
    ...(logitBias === undefined ? {} : { logitBias }),
    ...(stopTokenIds === undefined ? {} : { stopTokenIds }),
    ...(badWords === undefined ? {} : { badWords }),
    ...(samples === undefined ? {} : { samples }),
    ...(retries === undefined ? {} : { retries }),
    ...(retryTemperature === undefined ? {} : { retryTemperature }),
    ...(logprobs === undefined ? {} : { logprobs }),
  };
}
