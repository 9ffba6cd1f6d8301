import { Option, type Command } from 'commander';
import { decimal, stopString, wholeNumber } from './parsers.js';
import { addSwitch } from './commandFlags.js';

export interface SamplingFlags {
  readonly maxNewTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly seed: number;
  readonly stop?: readonly string[];
  readonly ignoreEos: boolean;
  readonly logprobs?: number;
}

export function addSamplingFlags(command: Command): void {
  command.optionsGroup('Sampling (a row may override all but the last two):');
  command.option('--max-new-tokens <n>', 'most new tokens a row', wholeNumber(1, 2 ** 31 - 1), 128);
  command.option('--temperature <t>', '0 is greedy', decimal((t) => t >= 0 && t <= 1e6, 'of at least 0'), 0);
  command.option('--top-p <p>', 'keep the most likely tokens up to this probability in all; 1 keeps all', decimal((p) => p > 0 && p <= 1, 'above 0 and at most 1'), 1);
  command.option('--top-k <n>', 'keep this many of the most likely tokens; 0 keeps all', wholeNumber(0, 2 ** 31 - 1), 0);
  command.option('--min-p <p>', 'keep tokens at least this fraction as likely as the best; 0 keeps all', decimal((p) => p >= 0 && p <= 1, 'from 0 to 1'), 0);
  command.option('--repetition-penalty <f>', 'makes tokens that the row has already less likely; 1 is off', decimal((f) => f > 0 && f <= 1e6, 'above 0'), 1);
  command.option('--seed <n>', 'of the random numbers; the same seed gives the same output', wholeNumber(0), 0);
  command.addOption(new Option('--stop <string>', 'end a row before this string; may be given several times (default: none)').argParser(stopString));
  addSwitch(command, '--ignore-eos', 'go on past the end token, to --max-new-tokens');
  command.option('--logprobs <k>', 'report the log-probability of each token and of k alternatives (default: none)', wholeNumber(0));
}
