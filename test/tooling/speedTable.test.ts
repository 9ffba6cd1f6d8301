import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

/** The benchmarks are scripts without types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../bench/${path}`)) as T;
const { peerResults, speedTable } = await load<{
  peerResults(folder: string): object[];
  speedTable(documents: object[]): string;
}>('peers/speedTable.mjs');
const { replaceBetween } = await load<{ replaceBetween(text: string, name: string, content: string): string }>(
  'lib/results.mjs',
);

test("README's table of speed is what the committed results say; node bench/peers.mjs --write makes it anew", () => {
  const readme = readFileSync('README.md', 'utf8');
  const table = speedTable(peerResults('bench/results'));
  expect(table).toMatch(/^\| Spillway .*\(/m);
  expect(readme).toBe(replaceBetween(readme, 'bench:speed', table));
});

describe('of results', () => {
  const machine = { processor: 'p', threads: 2, processors: 2, memoryBytes: 2 ** 30, system: 's', node: '20' };
  const run = (contender: string, rate: number, more: object = {}): object => ({
    contender,
    generatedTokensPerSecond: rate,
    promptTokensPerSecond: 10 * rate,
    othersShare: 0,
    ...more,
  });
  const document = (date: string, runs: readonly object[], more: object = {}): object => {
    const names = [...new Set(runs.map((each) => (each as { contender: string }).contender))];
    return {
      date,
      machine,
      workload: { model: 'dummy-1b.gguf', rows: 64, promptTokens: 100, maxNewTokens: 64 },
      summary: names.map((name) => ({
        name,
        tool: name.split(' ')[0],
        version: '1',
        setting: name.startsWith('transformers') ? { dtype: 'float32' } : {},
        generatedTokensPerSecond: 1,
      })),
      agreements: [],
      runs,
      ...more,
    };
  };
  const own = [run('spillway Q4_1', 10), run('spillway Q4_1', 30), run('spillway Q4_1', 20)];

  test('a rate has the spread of its runs, and says what ran once, beside others, stopped, or without rows', () => {
    const table = speedTable([
      document('2026-01-01', [
        ...own,
        run('spillway Q4_1 int8', 200, { othersShare: 0.03 }),
        run('vLLM int8', 5, { stopped: true }),
        run('vLLM int8', 6, { othersShare: 0.5 }),
        run('transformers (torch)', 3),
        run('llama.cpp Q4_1', 4, { synthetic: true }),
      ]),
    ]);
    const cells = ['Spillway 1 | Q4_1 | 20.0 (10.0 to 30.0)', 'Spillway 1 | Q4_1, in int8 | 200 (once, disturbed)'];
    const theirs = [
      'vLLM 1 | int8 | 5.5 (5.0 to 6.0, 1 of 2 disturbed, stopped)',
      'transformers (torch) 1 | float32 | 3.0 (once)',
      'llama.cpp 1 | Q4_1 | 4.0 (once, synthetic)',
    ];
    for (const row of [...cells, ...theirs]) expect(table).toContain(`\n| ${row} |`);
    expect(table).toContain('\n\nSynthetic: ');
    expect(table).not.toContain('tokens as the model');
  });

  test('each job is the newest one of the machine of the newest; prompts count where the job is about them', () => {
    const prompts = { workload: { model: 'dummy-1b.gguf', rows: 16, promptTokens: 1000, maxNewTokens: 32 } };
    const elsewhere = { ...prompts, machine: { ...machine, processor: 'other' } };
    const table = speedTable([
      document('2026-01-03', own),
      document('2026-01-02', [run('spillway Q4_1', 7)], elsewhere),
      document('2026-01-01', [run('spillway Q4_1', 9)], prompts),
      document('2025-01-01', [run('spillway Q4_1', 1)]),
    ]);
    expect(table).toContain('2026-01-01, 2026-01-03, p, 2 of 2 threads');
    expect(table).toContain('\n| Spillway 1 | Q4_1 | 20.0 (10.0 to 30.0) | 90.0 (once) |');
  });

  test("whose tokens are the model's is told of a model that was trained", () => {
    const agreement = (of: string, tokensBeforeFirstDifference: number): object => ({
      ...{ of, tokensBeforeFirstDifference, tokens: 200 },
    });
    const trained = {
      workload: { model: 'SmolLM2.gguf' },
      agreements: [agreement('spillway Q8_0', 100), agreement('vLLM int8', 50)],
    };
    const random = { agreements: [agreement('spillway Q4_1', 1)] };
    const table = speedTable([
      document('2026-01-02', [...own, run('vLLM int8', 5), run('vLLM bfloat16', 5)], random),
      document('2026-01-01', own, trained),
    ]);
    expect(table).toContain('\n| Spillway 1 | Q4_1 | 50% | 20.0');
    expect(table).toContain('\n| vLLM 1 | int8 | 25% | 5.0');
    expect(table).toContain('\n| vLLM 1 | bfloat16 |  | 5.0');
    expect(table).toContain('of SmolLM2.gguf.');
  });

  test('without any result of a job the table is refused', () => {
    expect(() => speedTable([])).toThrow('found no result of dummy-1b');
  });
});
