import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import type { CommandContext } from '../../src/cli/CommandContext.js';
import { createProgram } from '../../src/cli/program.js';
import { ENGINE_OPTIONS } from '../../src/engine/open/engineOptions.js';
import { runInstalled } from '../support/runInstalled.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

test('docs/flags.md is what the commands and options say; node scripts/flags-page.mjs makes it anew', async () => {
  const script = '../../scripts/flags-page.mjs';
  const { flagsPage } = (await import(script)) as { flagsPage(program: object, options: object): string };
  const page = readFileSync(new URL('../../docs/flags.md', import.meta.url), 'utf8');
  expect(page).toBe(flagsPage(createProgram({} as CommandContext), ENGINE_OPTIONS));
  expect(page.match(/^## /gm)?.length).toBeGreaterThan(20);
});

test('the first program of README runs as it stands, in a file of its own; only the model is another', async () => {
  await using model = await tinyChatModel();
  const [, program = ''] = /```js\n([^]*?)```/.exec(readFileSync('README.md', 'utf8')) ?? [];
  expect(program).toContain("model: 'smollm2-135m-instruct' }");
  const ours = program.replace("'smollm2-135m-instruct'", JSON.stringify(model.path));
  expect(runInstalled({ 'first.mjs': ours })).toMatch(/^1 .*\n[^]*2 /);
});

test.each(['README.md', 'docs/installation.md'])(
  '%s says how an install that compiles for minutes shows what it does',
  (file) => {
    expect(readFileSync(file, 'utf8')).toMatch(/`npm install \S+ --foreground-scripts`/);
  },
);
