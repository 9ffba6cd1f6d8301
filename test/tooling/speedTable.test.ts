import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
  const document = (date: string, runs: readonly object[], more: object = {}, version = '1'): object => {
    const names = [...new Set(runs.map((each) => (each as { contender: string }).contender))];
    return {
      date,
      machine,
      workload: { model: 'dummy-1b.gguf', rows: 64, promptTokens: 100, maxNewTokens: 64 },
      summary: names.map((name) => ({
        name,
        tool: name.split(' ')[0]?.toLowerCase(),
        version,
        setting: name.startsWith('transformers') ? { dtype: 'float32' } : {},
        generatedTokensPerSecond: 1,
      })),
      agreements: [],
      runs,
      ...more,
    };
  };
  const prompts = { workload: { model: 'dummy-1b.gguf', rows: 16, promptTokens: 1000, maxNewTokens: 32 } };
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

  test('a figure stands beside the version and the type that made it', () => {
    const torch = (dtype: string): object => ({
      ...{ name: 'transformers (torch)', tool: 'transformers', version: '5', setting: { dtype } },
    });
    const peer = run('llama.cpp Q4_1', 4);
    const table = speedTable([
      document('2026-01-02', [...own, peer], {}, '2'),
      document('2026-01-01', [run('spillway Q4_1', 9), peer], prompts),
    ]).split('\n');
    expect(table.filter((line) => line.startsWith('| ')).slice(1)).toEqual([
      '| Spillway 2 | Q4_1 | 20.0 (10.0 to 30.0) |  |',
      '| Spillway 1 | Q4_1 |  | 90.0 (once) |',
      '| llama.cpp 2 | Q4_1 | 4.0 (once) |  |',
      '| llama.cpp 1 | Q4_1 |  | 40.0 (once) |',
    ]);
    const types = speedTable([
      document('2026-01-02', [run('transformers (torch)', 3)], { summary: [torch('float32')] }),
      document('2026-01-01', [run('transformers (torch)', 2)], { ...prompts, summary: [torch('bfloat16')] }),
    ]);
    expect(types).toContain('\n| transformers (torch) 5 | float32 | 3.0 (once) |  |');
    expect(types).toContain('\n| transformers (torch) 5 | bfloat16 |  | 20.0 (once) |');
  });

  test.each([{ threads: 1 }, { processors: 4 }, { processor: 'other' }])('no column is of other %j', (other) => {
    const elsewhere = { ...prompts, machine: { ...machine, ...other } };
    const table = speedTable([
      document('2026-01-02', own),
      document('2026-01-02', [run('spillway Q4_1', 7)], elsewhere),
      document('2026-01-01', [run('spillway Q4_1', 9)], prompts),
    ]);
    expect(table).toContain('\n| Spillway 1 | Q4_1 | 20.0 (10.0 to 30.0) | 90.0 (once) |');
  });

  test('the newest of three tools or more goes first; of one day all tools before some, whole before quick', () => {
    const folder = mkdtempSync(join(tmpdir(), 'spillway-speed-'));
    try {
      const tools = { '04-part': 3, '05-quick-part': 2, '06-part': 1, '03-quick-part': 4, '03-part': 5 };
      const files = ['01', '02', '02-quick', '03-quick', ...Object.keys(tools)];
      for (const file of files)
        writeFileSync(
          join(folder, `peers-${file}.json`),
          JSON.stringify({
            date: `2026-01-${file.slice(0, 2)}`,
            file,
            summary: Array.from({ length: (tools as Record<string, number>)[file] ?? 6 }, () => ({})),
          }),
        );
      writeFileSync(join(folder, 'capped-2026.json'), '{}');
      const found = peerResults(folder).map((each) => (each as { file: string }).file);
      const few = ['06-part', '05-quick-part'];
      expect(found).toEqual(['04-part', '03-quick', '03-part', '03-quick-part', '02', '02-quick', '01', ...few]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.each(['IQ4_XS', 'F16', 'BF16', 'MXFP4', 'TQ2_0', 'UD-Q4_K_XL'])('%s is a type, not a part of a name', (type) => {
    const table = speedTable([
      document('2026-01-01', [
        run(`spillway ${type}`, 5),
        run(`spillway ${type} int8`, 6),
        run(`OpenVINO GenAI ${type}`, 7),
        run(`ik_llama.cpp ${type}`, 8),
      ]),
    ]);
    expect(table).toContain(`\n| Spillway 1 | ${type} | 5.0 (once) |`);
    expect(table).toContain(`\n| Spillway 1 | ${type}, in int8 | 6.0 (once) |`);
    expect(table).toContain(`\n| OpenVINO GenAI 1 | ${type} | 7.0 (once) |`);
    expect(table).toContain(`\n| ik_llama.cpp 1 | ${type} | 8.0 (once) |`);
  });

  describe("whose tokens are the model's", () => {
    const rates: Readonly<Record<string, number>> = {
      ...{ 'spillway Q4_1': 100, 'spillway Q4_1 int8': 80, 'vLLM int8': 50, 'transformers (torch)': 200 },
    };
    /** Names of contenders and their shares of 200 tokens, on a model that was trained. */
    const trained = (shares: Readonly<Record<string, number>>, more: object = {}, version = '1'): object => {
      const runs = Object.keys(shares).map((of) => run(of, 1));
      const agreements = Object.entries(shares).map(([of, tokensBeforeFirstDifference]) => ({
        ...{ of, tokensBeforeFirstDifference, tokens: 200 },
      }));
      return document('2026-01-01', runs, { workload: { model: 'SmolLM2.gguf' }, agreements, ...more }, version);
    };
    const random = { agreements: [{ of: 'spillway Q4_1', tokensBeforeFirstDifference: 1, tokens: 200 }] };
    const fast = document(
      '2026-01-02',
      [...own, ...['spillway Q4_1 int8', 'vLLM int8', 'vLLM bfloat16', 'transformers (torch)'].map((of) => run(of, 5))],
      random,
    );

    test('is told of a model that was trained', () => {
      const table = speedTable([fast, trained(rates)]);
      expect(table).toContain('\n| Spillway 1 | Q4_1 | 50% | 20.0');
      expect(table).toContain('\n| Spillway 1 | Q4_1, in int8 | 40% | 5.0');
      expect(table).toContain('\n| vLLM 1 | int8 | 25% | 5.0');
      expect(table).toContain('\n| vLLM 1 | bfloat16 |  | 5.0');
      expect(table).toContain('\n| transformers (torch) 1 | float32 | 100% | 5.0');
      expect(table).toContain('of SmolLM2.gguf.');
    });

    test("is not told by another file's type: older results of the type go first", () => {
      const other = trained({ 'spillway Q8_0': 180, 'spillway Q8_0 int8': 170 });
      const table = speedTable([fast, other, trained(rates)]);
      expect(table).toContain('\n| Spillway 1 | Q4_1 | 50% | 20.0');
      expect(speedTable([fast, other])).not.toContain('tokens as the model');
      const partly = speedTable([fast, trained({ 'spillway Q8_0': 180, 'vLLM int8': 50 })]);
      expect(partly).toContain('\n| Spillway 1 | Q4_1 |  | 20.0');
      expect(partly).toContain('\n| vLLM 1 | int8 | 25% | 5.0');
    });

    test('is not told by another version, nor on another machine', () => {
      expect(speedTable([fast, trained(rates, {}, '0')])).not.toContain('tokens as the model');
      const elsewhere = { machine: { ...machine, threads: 1 } };
      expect(speedTable([fast, trained(rates, elsewhere)])).not.toContain('tokens as the model');
    });
  });

  test('without any result of a job the table is refused', () => {
    expect(() => speedTable([])).toThrow('found no result of dummy-1b');
  });
});
