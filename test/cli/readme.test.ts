import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import type { CommandContext } from '../../src/cli/CommandContext.js';
import { createProgram } from '../../src/cli/program.js';
import { ENGINE_OPTIONS } from '../../src/engine/open/engineOptions.js';
import { runInstalled } from '../support/runInstalled.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

/** Flags as the table of `generate` has them: `--order input\|completion` is one with two choices. */
function documented(): Map<string, string> {
  const [, section = ''] = readFileSync(new URL('../../docs/command-line.md', import.meta.url), 'utf8').split(
    '### Flags of `generate`',
  );
  const rows = (section.split('\n### ')[0] ?? '').split('\n').filter((line) => line.startsWith('| `--'));
  return new Map(
    rows
      .flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`(--[a-z-]+) ?([^`]*)`/g)])
      .map(([, flag = '', value = '']) => [flag, value.replaceAll('\\|', '|')]),
  );
}

test('the table of docs/command-line.md has every flag of generate, no other, and the choices that there are', () => {
  const options =
    createProgram({} as CommandContext).commands.find((command) => command.name() === 'generate')?.options ?? [];
  const inReadme = documented();
  expect([...inReadme.keys()].sort()).toEqual(options.map(({ long }) => long).sort());
  for (const { long, argChoices } of options)
    if (argChoices) expect([long, inReadme.get(long ?? '')]).toEqual([long, argChoices.join('|')]);
});

test('the options of an engine make the table that is there; node scripts/option-table.mjs makes it anew', async () => {
  const script = '../../scripts/option-table.mjs';
  const { optionTable, withTable } = (await import(script)) as {
    optionTable(options: object): string;
    withTable(text: string, table: string): string;
  };
  const text = readFileSync(new URL('../../docs/command-line.md', import.meta.url), 'utf8');
  expect(text).toBe(withTable(text, optionTable(ENGINE_OPTIONS)));
});

test('the first program of README runs as it stands, in a file of its own; only the model is another', async () => {
  await using model = await tinyChatModel();
  const [, program = ''] = /```js\n([^]*?)```/.exec(readFileSync('README.md', 'utf8')) ?? [];
  expect(program).toContain("model: 'smollm2-135m-instruct' }");
  const ours = program.replace("'smollm2-135m-instruct'", JSON.stringify(model.path));
  expect(runInstalled({ 'first.mjs': ours })).toMatch(/^1 .*\n[^]*2 /);
});
