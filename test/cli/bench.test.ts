import { expect, test } from '@jest/globals';
import { runHere } from './runHere.js';
import { runCli, TINY_MODEL } from './support.js';

const work = ['bench', '--model', TINY_MODEL, '--prompt-tokens', '12', '--max-new-tokens', '6', '--threads', '1'];

interface Result {
  readonly batchSize: number;
  readonly rounds: number;
  readonly complete: boolean;
  readonly promptTokensPerSecond: number;
  readonly generatedTokensPerSecond: number;
  readonly secondsPerStep: number;
  readonly memoryBytes: { readonly cpu: number };
}

test('--json: a result a batch size, in order; rates of a batch and of its steps agree', async () => {
  const { code, stdout } = await runCli([...work, '--batch-sizes', '4,1,4', '--seconds', '2', '--json']);
  expect(code).toBe(0);
  const report = JSON.parse(stdout) as { results: Result[] };
  expect(report).toMatchObject({
    model: TINY_MODEL,
    promptTokens: 12,
    maxNewTokens: 6,
    machine: { node: process.versions.node },
  });
  expect(report.results.map(({ batchSize }) => batchSize)).toEqual([1, 4]);
  for (const result of report.results) {
    expect(result.complete).toBe(true);
    expect(result.promptTokensPerSecond).toBeGreaterThan(0);
    expect(result.memoryBytes.cpu).toBeGreaterThan(0);
    if (result.rounds === 1)
      expect(result.generatedTokensPerSecond * result.secondsPerStep).toBeCloseTo(result.batchSize, 6);
  }
});

test('a table for people', async () => {
  const { code, stdout } = await runCli([...work, '--batch-sizes', '2', '--seconds', '1']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^rows +prompt tokens\/s +generated tokens\/s +ms a step +memory +rounds$/m);
  expect(stdout).toMatch(/^2 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ \S+ +\d+$/m);
});

test('if no batch fits into the memory, the exit code is 3', async () => {
  const { code, stdout, stderr } = await runCli([...work, '--cpu-memory', '1MiB', '--batch-sizes', '1,2', '--json']);
  expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
  expect(stderr).toContain('the smallest budget that works is');
});

test('wrong values are refused', async () => {
  const attempt = async (...flags: string[]): Promise<[number, string]> => {
    const { code, stderr } = await runHere(['bench', '--model', TINY_MODEL, ...flags]);
    return [code, stderr];
  };
  expect(await attempt('--batch-sizes', '1,x')).toEqual([1, expect.stringContaining('whole number from 1 to 4096')]);
  expect(await attempt('--batch-sizes', '')).toEqual([1, expect.stringContaining('whole number')]);
  expect(await attempt('--max-new-tokens', '1')).toEqual([1, expect.stringContaining('at least 2')]);
  expect(await attempt('--prompt-tokens', '120')).toEqual([
    1,
    expect.stringContaining('found 152 tokens in all, expected at most 128'),
  ]);
  expect(await runHere(['bench'])).toMatchObject({ code: 1, stderr: expect.stringContaining('missing: --model') });
});
