import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { longFlag, requireFlags } from './flags/commandFlags.js';
import { createTokenizer, estimateRows, readModel, UsageError, type ExpectedRows } from './library.js';
import { pulledModel } from './openModel.js';
import type { PlanCommandFlags } from './planRequest.js';
import { ProgressMeter } from './ProgressMeter.js';

/** Flags that say what --input shows. */
const SHOWN = ['promptTokens', 'sharedPrefixTokens'] as const satisfies readonly (keyof PlanCommandFlags)[];

/**
 * The flags of a plan for the rows of --input, where it is given: their first ones are looked at as `generate` does.
 * @throws UsageError, JobFileError, ModelFileError
 */
export async function withRowsOf(
  flags: PlanCommandFlags,
  command: Command,
  context: CommandContext,
): Promise<PlanCommandFlags> {
  const { input, maxNewTokens, rows } = flags;
  if (input === undefined) return flags;
  const said = SHOWN.find((name) => command.getOptionValueSource(name) === 'cli');
  if (said !== undefined)
    throw new UsageError(`${longFlag(said)}: found it beside --input, whose rows say it, expected one of them`);
  requireFlags(flags, 'model');
  const meter = new ProgressMeter('auto', process.stderr);
  const model = await pulledModel(flags.model, context.signal, meter).finally(() => meter.stop());
  const { tokenizer, decoder } = await readModel(model);
  const expected = await estimateRows(input, createTokenizer(tokenizer, decoder.vocabularySize), {
    generate: { maxNewTokens, signal: context.signal },
    ...(rows !== undefined && { rows }),
  });
  if (expected === undefined)
    throw new UsageError(`--input: found ${input}, which can be read only once, expected a regular file`);
  if (expected.rows === 0)
    throw new UsageError(`--input: found no row in ${input} that can be answered, expected some`);
  const told = asFlags(expected);
  const count = told.rows === undefined ? 'rows' : `${told.rows} ${told.rows === 1 ? 'row' : 'rows'}`;
  const shared = told.sharedPrefixTokens > 0 ? `, ${told.sharedPrefixTokens} of them shared` : '';
  context.say(`${input}: ${count} of ${told.promptTokens} tokens${shared}, and ${told.maxNewTokens} new ones`);
  return { ...flags, ...told, model };
}

/** Averages, as whole tokens. */
function asFlags({
  promptTokens,
  newTokens,
  sharedPrefixTokens = 0,
  rows,
}: ExpectedRows): Pick<PlanCommandFlags, 'promptTokens' | 'maxNewTokens' | 'sharedPrefixTokens' | 'rows'> {
  const prompt = Math.max(1, Math.round(promptTokens));
  return {
    promptTokens: prompt,
    maxNewTokens: Math.max(1, Math.round(newTokens)),
    sharedPrefixTokens: Math.min(prompt - 1, Math.round(sharedPrefixTokens)),
    ...(rows !== undefined && { rows }),
  };
}
