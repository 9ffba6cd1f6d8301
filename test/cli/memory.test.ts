import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { resultOf, TINY_MODEL } from './support.js';

const path = temporaryFolder();
const ROWS = 10_000;
const ID = 'x'.repeat(12_000);
/**
 * Less than all ids together, and enough for everything else: to see what a million short ids take, one would have to
 * wait for longer.
 */
const HEAP_MIB = 104;

test('of the rows of a job nothing is kept as it was, not even their ids', async () => {
  const [input, output] = [path('in.jsonl'), path('out.jsonl')];
  const file = createWriteStream(input);
  for (let row = 0; row < ROWS; row++) {
    if (!file.write(`{"id":"${ID}${row}","tokens":[1,${3 + (row % 250)}]}\n`)) await once(file, 'drain');
  }
  // The first id once more.
  await once(file.end(`{"id":"${ID}0","tokens":[1,3]}\n`), 'close');
  const args = [
    `--max-old-space-size=${HEAP_MIB}`,
    built('cli/main.js'),
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--output',
    output,
    '--max-new-tokens',
    '1',
    '--ignore-eos',
  ];
  const { code, stderr } = await resultOf(spawn(process.execPath, args, { stdio: 'pipe' }));
  expect({ code, stderr }).toEqual({ code: 4, stderr: expect.stringContaining(`${ROWS + 1} rows (1 with an error)`) });
  expect(readFileSync(output, 'utf8').trimEnd().split('\n').at(-1)).toContain('"code":"duplicate-id"');
});
