import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { resultOf } from '../cli/support.js';
import { makeFolder } from '../model/support/folders.js';
import { tries } from '../support/tries.js';

interface Report {
  readonly executions: number;
  readonly generated: number;
  readonly findings: readonly { readonly finding: string; readonly count: number; readonly recipe: unknown }[];
}

/** Cases that between them reach what a long run of the fuzzer reached, and how many more follow from a seed. */
const whole = JSON.parse(readFileSync('test/fuzz/corpus.json', 'utf8')) as readonly unknown[];
/** By day every sixth one. */
const corpus = whole.filter((_, at) => at % tries(6, 1) === 0);
const MORE = tries(10, 200);
/** A case waits for threads now and then: the other fuzzer has the processor. */
const AT_ONCE = 2;
/** Ends its process: that is to be found, and what comes after it to run nevertheless. */
const BROKEN = { base: 'no such model', seeds: [] };

async function fuzz(cases: readonly unknown[], more: number, seed: number): Promise<Report> {
  const folder = await makeFolder();
  const [given, json] = [join(folder, 'cases.json'), join(folder, 'report.json')];
  writeFileSync(given, JSON.stringify(cases));
  const counts = ['--executions', String(cases.length + more), '--seed', String(seed)];
  const child = spawn(
    process.execPath,
    ['scripts/nightly/fuzz.mjs', '--unguided', ...counts, '--cases', given, '--json', json],
    { stdio: 'pipe' },
  );
  const { stderr } = await resultOf(child);
  if (!existsSync(json)) throw new Error(stderr);
  return JSON.parse(readFileSync(json, 'utf8')) as Report;
}

test('models that were changed generate or are refused with a documented error, soon and in little memory', async () => {
  const reports = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, one) =>
      fuzz([BROKEN, ...corpus.filter((__, at) => at % AT_ONCE === one)], MORE / AT_ONCE, 1 + one),
    ),
  );
  for (const { findings } of reports)
    expect(findings).toEqual([
      expect.objectContaining({
        finding: expect.stringMatching(/^crash: exit code 1: Error: found the base no such model/),
        count: 1,
        recipe: BROKEN,
      }),
    ]);
  const sum = (count: (report: Report) => number): number =>
    reports.map(count).reduce((total, each) => total + each, 0);
  const executions = AT_ONCE + corpus.length + MORE;
  expect(sum((report) => report.executions)).toBe(executions);
  expect(sum(({ generated }) => generated)).toBeGreaterThan(executions / 2);
});
