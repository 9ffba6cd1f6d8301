import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { runInstalled } from '../support/runInstalled.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

test('the schedule of the guide runs as it stands there; only the model is another', async () => {
  await using model = await tinyChatModel();
  const programs = [...readFileSync('docs/guides/schedule.md', 'utf8').matchAll(/```js\n([^]*?)```/g)].map(
    ([, code = '']) => code,
  );
  expect(programs).toHaveLength(2);
  const [schedule = '', program = ''] = programs;
  expect(program).toContain("'smollm2-135m-instruct'");
  const ours = program.replace("'smollm2-135m-instruct'", JSON.stringify(model.path));
  expect(runInstalled({ 'shortest.mjs': schedule, 'try.mjs': ours })).toBe('the same answers\n');
});

test('the stage of the guide runs as it stands there; only the model is another', async () => {
  await using model = await tinyChatModel();
  const [, program = ''] = /```js\n([^]*?)```/.exec(readFileSync('docs/guides/stage.md', 'utf8')) ?? [];
  expect(program).toContain("'smollm2-135m-instruct'");
  const ours = program.replace("'smollm2-135m-instruct'", JSON.stringify(model.path));
  expect(runInstalled({ 'stage.mjs': ours })).toMatch(/\nsquares were counted\n$/);
});

const GUIDES = readdirSync('docs/guides').map((name) => [name, readFileSync(`docs/guides/${name}`, 'utf8')] as const);

test.each(GUIDES)('files that the guide %s names are there, and have the code that it shows', (_, text) => {
  const named = [...text.matchAll(/`((?:src|test|native|docs|scripts|examples|bench)\/[\w./-]+)`/g)];
  expect(
    named.map(([, path = '']) => path).filter((path) => !existsSync(path) && !existsSync(`${path}.test.ts`)),
  ).toEqual([]);
  const shown = [...text.matchAll(/From\s`([^`]+)`:\n\n```\w+\n([^]*?)```/g)];
  expect(shown.length > 0 || text.includes('```js')).toBe(true);
  for (const [, path = '', code = ''] of shown) expect(readFileSync(path, 'utf8')).toContain(code);
});

test('docs/errors.md has every code of errors and of rows, and no other', () => {
  const [ofCalls = '', ofRows = ''] = readFileSync('docs/errors.md', 'utf8').split('## Errors of a row');
  const codesOf = (text: string): string[] => [
    ...new Set(
      [...text.matchAll(/^\| ((?:`[a-z-]+`(?:, )?)+) \|/gm)].flatMap(([, cell = '']) =>
        [...cell.matchAll(/`([a-z-]+)`/g)].map(([, code = '']) => code),
      ),
    ),
  ];
  expect(codesOf(ofCalls).sort()).toEqual(codesIn('SpillwayError.ts', 'ErrorCode'));
  expect(codesOf(ofRows).sort()).toEqual(codesIn('RowError.ts', 'RowErrorCode'));
});

/** The members of a union of strings, as its file has them. */
function codesIn(file: string, union: string): string[] {
  const code = readFileSync(`src/errors/${file}`, 'utf8').replaceAll(/ \/\/.*/g, '');
  const [, members = ''] = new RegExp(`type ${union} =([^;]*)`).exec(code) ?? [];
  return [...members.matchAll(/\| '([a-z-]+)'/g)].map(([, member = '']) => member).sort();
}
