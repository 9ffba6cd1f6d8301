import { isUtf8 } from 'node:buffer';
import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT } from './exitCodes.js';
import { addModelFlag, type ModelFlags } from './flags/engineFlags.js';
import {
  createTokenizer,
  exceedsMemory,
  InterruptedError,
  isObject,
  openLines,
  JOB_OPTIONS,
  parseRow,
  readModel,
  RowError,
  StreamWriter,
  Turns,
  type Tokenizer,
  inTurns,
} from './library.js';
import { pulledModel } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { checkStandardInput, checkStandardOutput, standardOutput } from './standardStreams.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';

/** As in files of rows. */
const BLANK = /^[ \t\r]*$/;

interface TokenizeFlags extends ModelFlags {
  /** Commander turns `--no-special-tokens` into this. */
  readonly specialTokens: boolean;
  readonly escapeSpecialTokens: boolean;
}

export function addTokenize(program: Command, context: CommandContext): void {
  const command = program
    .command('tokenize')
    .description(
      'Turns text into token ids: lines {"id","text"} on stdin, lines {"id","tokens"} on stdout. A bad line becomes {"id","error"}.',
    );
  addModelFlag(command);
  command.option(
    '--no-special-tokens',
    'add no begin token, nor what else the model puts round a text (default: they are added)',
  );
  addSwitch(command, '--escape-special-tokens', 'text such as <|im_start|> is data, not a control token');
  command.action((flags: TokenizeFlags) => tokenize(flags, context));
}

async function tokenize(flags: TokenizeFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model');
  checkStandardOutput();
  checkStandardInput((text) => context.say(text));
  const meter = new ProgressMeter('auto', process.stderr);
  const model = await pulledModel(flags.model, context.signal, meter).finally(() => meter.stop());
  const source = await readModel(model);
  const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
  const out = new StreamWriter(standardOutput(), 'standard output', { signal: context.signal });
  const stop = (): void => void process.stdin.destroy(new InterruptedError(context.signal.reason));
  context.signal.addEventListener('abort', stop);
  const turns = new Turns();
  try {
    for await (const line of openLines(process.stdin, JOB_OPTIONS.lineBytes, 'standard input')) {
      if (turns.due) await turns.give();
      // The rest of what was read already is many rows.
      context.signal.throwIfAborted();
      const result = await tokenizeLine(line.bytes, line.number, tokenizer, flags, context.signal);
      if (result === undefined) continue;
      if (result.error !== undefined) context.exitCode = EXIT.rowErrors;
      await out.write(`${JSON.stringify(result)}\n`);
    }
  } catch (error) {
    throw context.signal.aborted ? new InterruptedError(context.signal.reason) : error;
  } finally {
    context.signal.removeEventListener('abort', stop);
  }
  await out.close();
}

interface TokenizedLine {
  readonly id: string | number;
  readonly tokens?: readonly number[];
  readonly error?: { readonly code: string; readonly message: string };
}

/** @returns undefined for a blank line */
async function tokenizeLine(
  bytes: Buffer | undefined,
  number: number,
  tokenizer: Tokenizer,
  flags: TokenizeFlags,
  signal: AbortSignal,
): Promise<TokenizedLine | undefined> {
  const bad = (id: string | number, code: string, message: string): TokenizedLine => ({ id, error: { code, message } });
  if (bytes === undefined)
    return bad(number, 'too-long', `line ${number}: found more than ${JOB_OPTIONS.lineBytes} bytes`);
  if (!isUtf8(bytes))
    return bad(number, 'invalid-json', `line ${number}: found bytes that are no UTF-8, expected UTF-8`);
  if (exceedsMemory(bytes, JOB_OPTIONS.rowBytes))
    return bad(number, 'limit', `line ${number}: found JSON whose values take more than ${JOB_OPTIONS.rowBytes} bytes`);
  const json = bytes.toString('utf8');
  if (BLANK.test(json)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    return bad(number, 'invalid-json', `line ${number}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(value)) return bad(number, 'invalid-row', `line ${number}: expected an object {"id","text"}`);
  const { text } = value;
  // The same rules for ids as in rows of prompts.
  const row = parseRow({ id: value['id'], prompt: '' }, number, false);
  const id = row.id ?? number;
  if ('error' in row) return bad(id, row.error.code, row.error.message);
  if (typeof text !== 'string') return bad(id, 'invalid-row', 'text: expected a string');
  try {
    const { specialTokens, escapeSpecialTokens } = flags;
    const tokens = tokenizer.encodeInParts(text, { specialTokens, parseSpecial: !escapeSpecialTokens });
    return { id, tokens: Array.isArray(tokens) ? tokens : await inTurns(tokens, { signal }) };
  } catch (error) {
    // Other refusals are no row's fault: a model without a tokenizer has none for any of them.
    if (error instanceof RowError && error.rowCode === 'limit') return bad(id, error.rowCode, error.message);
    throw error;
  }
}
