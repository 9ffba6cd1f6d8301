import { expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import { hostileCases, inputOf, writeModel } from './support/hostileCase.js';
import { runMeasured } from './support/runMeasured.js';

const path = temporaryFolder();
let names = 0;

const MOST_RESIDENT = 512 * 2 ** 20;
/** What it takes on an idle machine is under 4 s, most of it under one; where others have the caches, twice that. */
const MOST_CPU_SECONDS = 30;

/** The least that a run takes: no plan, which would measure the machine. */
const GENERATE = [
  '--input',
  '-',
  '--output',
  '-',
  '--max-new-tokens',
  '4',
  '--ignore-eos',
  '--batch-size',
  '4',
  '--batches',
  '1',
  '--threads',
  '1',
  '--cpu-memory',
  '512MiB',
];

test.each(hostileCases())('%s: %s', async (_, __, one) => {
  const folder = path(`model-${++names}`);
  writeModel(one, path('good'), folder);
  const [command = '', ...flags] = typeof one.command === 'string' ? [one.command] : one.command;
  const result = await runMeasured(
    [command, '--model', folder, ...flags, ...(command === 'generate' ? GENERATE : [])],
    inputOf(one),
  );
  const told = { code: result.code, stderr: result.stderr.slice(0, 2000), stdout: result.stdout.slice(0, 2000) };
  expect(told).toMatchObject({ code: one.exit });
  expect(result.stdout).toMatch(new RegExp(one.stdout ?? ''));
  expect(result.stderr).toMatch(new RegExp(one.stderr ?? ''));
  expect(result.stderr).not.toMatch(/^ +at |should not/m);
  expect(result.use).toBeDefined();
  expect(result.use?.residentBytes).toBeLessThan(MOST_RESIDENT);
  expect(result.use?.cpuSeconds).toBeLessThan(MOST_CPU_SECONDS);
});
