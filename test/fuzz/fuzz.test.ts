import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { makeFolder } from '../model/support/folders.js';

interface Report {
  readonly executions: number;
  readonly generated: number;
  readonly findings: readonly { readonly finding: string; readonly count: number; readonly recipe: unknown }[];
}

/** Cases that between them reach what a long run of the fuzzer reached, and how many more follow from a seed. */
const corpus = JSON.parse(readFileSync('test/fuzz/corpus.json', 'utf8')) as readonly unknown[];
const MORE = 200;
/** Ends its process: that is to be found, and what comes behind it to run nevertheless. */
const BROKEN = { base: 'no such model', seeds: [] };

test('models that were changed generate or are refused with a documented error, soon and in little memory', async () => {
  const folder = await makeFolder();
  const [cases, json] = [join(folder, 'cases.json'), join(folder, 'report.json')];
  writeFileSync(cases, JSON.stringify([BROKEN, ...corpus]));
  const executions = 1 + corpus.length + MORE;
  const { stderr } = spawnSync(
    process.execPath,
    ['scripts/nightly/fuzz.mjs', '--unguided', '--executions', String(executions), '--cases', cases, '--json', json],
    { encoding: 'utf8' },
  );
  if (!existsSync(json)) throw new Error(stderr);
  const report = JSON.parse(readFileSync(json, 'utf8')) as Report;
  expect(report.findings).toEqual([
    expect.objectContaining({
      finding: expect.stringMatching(/^crash: exit code 1: Error: found the base no such model/),
      count: 1,
      recipe: BROKEN,
    }),
  ]);
  expect(report.executions).toBe(executions);
  expect(report.generated).toBeGreaterThan(executions / 2);
}, 600_000);
