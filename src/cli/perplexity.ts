import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addEngineFlags, addModelFlag, engineOptions, type EngineFlags } from './flags/modelFlags.js';
import { path, wholeNumber } from './flags/parsers.js';
import { addMemoryFlags } from './flags/planFlags.js';
import { createTokenizer, describeFileError, Engine, JobFileError, readModel, UsageError } from './library.js';
import { pulledModel, showLoading } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';

interface PerplexityFlags extends EngineFlags {
  readonly text: string;
  readonly window: number;
  readonly escapeSpecialTokens: boolean;
  readonly json: boolean;
}

export function addPerplexity(program: Command, context: CommandContext): void {
  const command = program
    .command('perplexity')
    .description('Scores a text: windows do not overlap, the first token of each is not scored, no special tokens are added.');
  addModelFlag(command);
  command.addOption(new Option('--text <file>', 'necessary: the text, UTF-8').argParser(path));
  command.addOption(new Option('--window <n>', 'necessary: tokens a window; the last may be short').argParser(wholeNumber(2)));
  addSwitch(command, '--escape-special-tokens', 'text such as <|im_start|> is data, not a control token');
  addSwitch(command, '--json', 'print {"tokens","negativeLogLikelihood","perplexity"}, not words');
  addEngineFlags(command);
  addMemoryFlags(command);
  command.action((flags: PerplexityFlags) => perplexity(flags, context));
}

async function perplexity(flags: PerplexityFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'text', 'window');
  const { signal } = context;
  const text = await readText(flags.text);
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    const model = await pulledModel(flags.model, signal, meter);
    const { tokenizer: tokenizerSource, decoder } = await readModel(model);
    if (flags.window > decoder.contextTokens) {
      throw new UsageError(`--window: found ${flags.window}, expected a whole number from 2 to ${decoder.contextTokens}, the model's context`);
    }
    const tokens = createTokenizer(tokenizerSource, decoder.vocabularySize).encode(text, { specialTokens: false, parseSpecial: !flags.escapeSpecialTokens });
    if (tokens.length < 2) throw new JobFileError(flags.text, `found ${tokens.length} tokens, expected at least 2: the first is not scored`);
    const engine = await Engine.open({ ...engineOptions(flags, model), policy: 'default', signal, onLoad: showLoading(meter) });
    try {
      meter.stop();
      const result = await engine.perplexity(tokens, { window: flags.window, signal });
      await context.print(
        flags.json
          ? `${JSON.stringify(result)}\n`
          : `perplexity ${result.perplexity.toPrecision(6)} over ${result.tokens} tokens (negative log-likelihood ${result.negativeLogLikelihood.toPrecision(8)})\n`,
      );
    } finally {
      await engine.close();
    }
  } finally {
    meter.stop();
  }
}

/** The whole text, byte for byte: a byte order mark is part of it, as it is for the reference. */
async function readText(file: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    throw new JobFileError(file, `cannot be read: ${describeFileError(error)}`, { cause: error });
  }
  if (!isUtf8(bytes)) throw new JobFileError(file, 'found bytes that are no UTF-8, expected UTF-8 text');
  return bytes.toString('utf8');
}
