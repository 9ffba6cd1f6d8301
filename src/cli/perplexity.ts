import { isUtf8 } from 'node:buffer';
import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import {
  addCompressionFlags,
  addMachineFlags,
  addModelFlag,
  engineOptions,
  type EngineFlags,
} from './flags/engineFlags.js';
import { path, wholeNumber } from './flags/parsers.js';
import {
  bytesOf,
  createTokenizer,
  Engine,
  fileFailure,
  InterruptedError,
  JobFileError,
  JOB_OPTIONS,
  readModel,
  UsageError,
  inTurns,
} from './library.js';
import { pulledModel, showOpening } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { checkStandardOutput } from './standardStreams.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';

interface PerplexityFlags extends EngineFlags {
  readonly text: string;
  readonly window: number;
  readonly promptTokens: number;
  readonly escapeSpecialTokens: boolean;
  readonly json: boolean;
}

export function addPerplexity(program: Command, context: CommandContext): void {
  const command = program
    .command('perplexity')
    .description(
      'Scores a text: windows do not overlap, the first token of each (or more: its prompt) is not scored, no special tokens are added.',
    );
  addModelFlag(command);
  command.addOption(new Option('--text <file>', 'necessary: the text, UTF-8').argParser(path));
  command.addOption(
    new Option('--window <n>', 'necessary: tokens a window; the last may be short').argParser(wholeNumber(2)),
  );
  command.addOption(
    new Option(
      '--prompt-tokens <n>',
      'first tokens of each window that are given and not scored; sparse attention is dense for them',
    )
      .default(1)
      .argParser(wholeNumber(1)),
  );
  addSwitch(command, '--escape-special-tokens', 'text such as <|im_start|> is data, not a control token');
  addSwitch(command, '--json', 'print {"tokens","negativeLogLikelihood","perplexity"}, not words');
  addMachineFlags(command);
  addCompressionFlags(command);
  command.action((flags: PerplexityFlags) => perplexity(flags, context));
}

async function perplexity(flags: PerplexityFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'text', 'window');
  checkStandardOutput();
  const { signal } = context;
  const text = await readText(flags.text, signal);
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    await Engine.check(engineOptions(flags, flags.model));
    const model = await pulledModel(flags.model, signal, meter);
    const { tokenizer: tokenizerSource, decoder } = await readModel(model);
    if (flags.window > decoder.contextTokens) {
      throw new UsageError(
        `--window: found ${flags.window}, expected a whole number from 2 to ${decoder.contextTokens}, the model's context`,
      );
    }
    if (flags.promptTokens >= flags.window) {
      throw new UsageError(
        `--prompt-tokens: found ${flags.promptTokens}, expected a whole number from 1 to ${flags.window - 1}, one less than the window`,
      );
    }
    const made = createTokenizer(tokenizerSource, decoder.vocabularySize).encodeInParts(text, {
      specialTokens: false,
      parseSpecial: !flags.escapeSpecialTokens,
    });
    const tokens = Array.isArray(made) ? made : await inTurns(made, { signal });
    const least = flags.promptTokens + 1;
    if (tokens.length < least) {
      throw new JobFileError(
        flags.text,
        `found ${tokens.length} tokens, expected at least ${least}: ${least === 2 ? 'the first is' : `the first ${least - 1} are`} not scored`,
      );
    }
    const engine = await Engine.open({
      ...engineOptions(flags, model),
      policy: 'default',
      signal,
      ...showOpening(meter, context),
    });
    try {
      meter.stop();
      const result = await engine.perplexity(tokens, {
        window: flags.window,
        promptTokens: flags.promptTokens,
        signal,
      });
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
async function readText(file: string, signal: AbortSignal): Promise<string> {
  let bytes: Buffer;
  try {
    const pieces: Buffer[] = [];
    let length = 0;
    for await (const piece of bytesOf(file, signal)) {
      length += piece.length;
      // Its tokens take many times as much, and have to be there at once.
      if (length > JOB_OPTIONS.scoredBytes)
        throw new JobFileError(
          file,
          `found more than ${JOB_OPTIONS.scoredBytes} bytes, expected at most so many of a text: score it in parts`,
        );
      pieces.push(piece);
    }
    bytes = Buffer.concat(pieces);
  } catch (error) {
    throw error instanceof InterruptedError ? error : fileFailure(file, 'read', error);
  }
  if (!isUtf8(bytes)) throw new JobFileError(file, 'found bytes that are no UTF-8, expected UTF-8 text');
  return bytes.toString('utf8');
}
