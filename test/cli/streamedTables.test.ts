import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import { runCli, TINY_MODEL } from './support.js';

const path = temporaryFolder();

test('a table on standard input comes out as one that is given by its path', async () => {
  const table = '\ufeffid;2019;tokens;10\r\na;x;[1,4];ten\r\nb;;[1,5];\r\n';
  const input = path('in.csv');
  writeFileSync(input, table);
  const args = ['generate', '--model', TINY_MODEL, '--max-new-tokens', '2', '--output-format', 'csv'];
  const run = async (from: string, to: string): Promise<string> => {
    const { code, stdout, stderr } = await runCli(
      [...args, '--input', from, '--input-format', 'csv', '--output', to],
      from === '-' ? table : '',
    );
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')]);
    return to === '-' ? stdout : readFileSync(to, 'utf8');
  };
  const expected = await run(input, path('by-path.csv'));
  expect(expected).toMatch(/^\ufeffid;2019;tokens;10;text;finish_reason;/);
  expect(await run('-', path('from-stdin.csv'))).toBe(expected);
  expect(await run('-', '-')).toBe(expected);
});
