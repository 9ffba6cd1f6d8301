import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import type { CommandContext } from '../../src/cli/CommandContext.js';
import { createProgram } from '../../src/cli/program.js';

/** Flags as README's table of `generate` has them: `--order input\|completion` is one with two choices. */
function documented(): Map<string, string> {
  const [, section = ''] = readFileSync(new URL('../../README.md', import.meta.url), 'utf8').split('### Flags of `generate`');
  const rows = (section.split('\n### ')[0] ?? '').split('\n').filter((line) => line.startsWith('| `--'));
  return new Map(rows.flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`(--[a-z-]+) ?([^`]*)`/g)]).map(([, flag = '', value = '']) => [flag, value.replaceAll('\\|', '|')]));
}

test("README's table has every flag of generate, no other, and the choices that there are", () => {
  const options = createProgram({} as CommandContext).commands.find((command) => command.name() === 'generate')?.options ?? [];
  const inReadme = documented();
  expect([...inReadme.keys()].sort()).toEqual(options.map(({ long }) => long).sort());
  for (const { long, argChoices } of options) if (argChoices) expect([long, inReadme.get(long ?? '')]).toEqual([long, argChoices.join('|')]);
});
