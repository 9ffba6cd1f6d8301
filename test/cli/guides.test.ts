import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

test('the schedule of the guide runs as it stands there; only the model is another', async () => {
  await using model = await tinyChatModel();
  const programs = [...readFileSync('docs/guides/schedule.md', 'utf8').matchAll(/```js\n([^]*?)```/g)].map(
    ([, code = '']) => code,
  );
  expect(programs).toHaveLength(2);
  built('cli/main.js');
  const folder = mkdtempSync(join(tmpdir(), 'spillway-guide-'));
  try {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(resolve('.'), join(folder, 'node_modules', 'spillway'));
    writeFileSync(join(folder, 'shortest.mjs'), programs[0] ?? '');
    const program = programs[1] ?? '';
    expect(program).toContain("'smollm2-135m-instruct'");
    writeFileSync(join(folder, 'try.mjs'), program.replace("'smollm2-135m-instruct'", JSON.stringify(model.path)));
    expect(execFileSync(process.execPath, [join(folder, 'try.mjs')], { encoding: 'utf8' })).toBe('the same answers\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
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
