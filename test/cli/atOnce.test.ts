import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, TINY_MODEL, until } from './support.js';

const path = temporaryFolder();

test('four processes that find the lock of one that was killed: one goes on, the others are refused by its number or find all done', async () => {
  const [input, output, expected] = [path('in.jsonl'), path('out.jsonl'), path('expected.jsonl')];
  writeLines(
    input,
    Array.from({ length: 2000 }, (_, at) => ({ id: `row-${at}`, tokens: [1, 3 + (at % 250), 7] })),
  );
  const args = (to: string): string[] => [
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--output',
    to,
    '--max-new-tokens',
    '48',
    '--ignore-eos',
  ];
  expect(await runCli(args(expected))).toMatchObject({ code: 0 });

  const first = startCli([...args(output), '--resume']);
  const killed = resultOf(first);
  await until(() => existsSync(`${output}.lock`) || first.exitCode !== null);
  first.kill('SIGKILL');
  expect((await killed).code).toBe(137);

  const children = Array.from({ length: 4 }, () => startCli([...args(output), '--resume']));
  const pids = children.map(({ pid }) => pid);
  const results = await Promise.all(children.map(resultOf));
  expect(results.filter(({ code }) => code === 0).length).toBeGreaterThan(0);
  for (const { code, stderr } of results.filter((each) => each.code !== 0)) {
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('is in use by process') });
    expect(pids).toContain(Number(/in use by process (\d+)/.exec(stderr)?.[1]));
  }
  expect(readFileSync(output, 'utf8')).toBe(readFileSync(expected, 'utf8'));
  expect(
    readdirSync(path('.'))
      .filter((name) => name.startsWith('out.'))
      .sort(),
  ).toEqual(['out.jsonl', 'out.jsonl.job.json']);
});
