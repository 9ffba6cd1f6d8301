import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';

/** The benchmarks are scripts without types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../bench/${path}`)) as T;

interface Setting {
  readonly sequences?: number;
  readonly dtype?: string;
}
interface Contender {
  readonly name: string;
  readonly settings: readonly Setting[];
  command(job: object, setting: object): { program: string; args: string[] };
}
const { allContenders } = await load<{
  allContenders(given: object): { contenders: Contender[]; missing: { name: string; reason: string }[] };
}>('peers/contenders.mjs');
const { comparable, fittingSettings } = await load<{
  comparable(figures: object, job: object, lengths: number[]): Record<string, number>;
  fittingSettings(contender: object, job: object, memory: object): Setting[];
}>('peers/work.mjs');
const { bestPeer, summarize } = await load<{
  bestPeer(summary: object[], ratios: object[]): object | undefined;
  summarize(measured: object): { summary: object[] };
}>('peers/summary.mjs');
const { shortTable, report } = await load<{ shortTable(document: object): string; report(document: object): string }>(
  'peers/report.mjs',
);

const given = { model: 'm.gguf', type: 'Q4_1', llamaCpp: 'nowhere', ikLlamaCpp: 'nowhere' };

describe('contenders', () => {
  test('those that need an interpreter are named with the flag that is missing', () => {
    const { contenders, missing } = allContenders(given);
    expect(contenders.map(({ name }) => name)).not.toContain('vLLM float32');
    const reasons = Object.fromEntries(missing.map(({ name, reason }) => [name, reason]));
    expect(reasons['vLLM']).toContain('--vllm');
    expect(reasons['OpenVINO GenAI']).toContain('--openvino');
  });

  test('vLLM in each type is a contender, and its job says where its model is', () => {
    const { contenders } = allContenders({
      ...given,
      vllmPython: 'python-v',
      hfFolder: '/hf',
      w8a8Folder: '/hf-w8a8',
      openvinoPython: 'py-o',
    });
    const named = (name: string): Contender => contenders.find((contender) => contender.name === name) as Contender;
    for (const [name, dtype, hfFolder] of [
      ['bfloat16', 'bfloat16', '/hf'],
      ['float32', 'float32', '/hf'],
      ['int8', 'bfloat16', '/hf-w8a8'],
    ] as const) {
      const { settings, command } = named(`vLLM ${name}`);
      const { program, args } = command({ model: 'm.gguf' }, settings[0] as Setting);
      expect(program).toBe('python-v');
      expect(JSON.parse(args[1] as string)).toMatchObject({ hfFolder, setting: { dtype } });
    }
    expect(named('OpenVINO GenAI Q4_1').command({}, {}).program).toBe('py-o');
  });

  test('OpenVINO runs from the GGUF file, and from an IR where there is an exporter', () => {
    const python = { ...given, openvinoPython: 'py-o' };
    const names = ({ contenders }: { contenders: Contender[] }): string[] =>
      contenders.map(({ name }) => name).filter((name) => name.startsWith('OpenVINO'));
    const without = allContenders(python);
    expect(names(without)).toEqual(['OpenVINO GenAI Q4_1']);
    expect(without.missing).toContainEqual({
      name: 'OpenVINO GenAI int8 and int4',
      reason: expect.stringContaining('--optimum'),
    });
    const { contenders, missing } = allContenders({ ...python, irFolders: { int8: '/ir-8', int4: '/ir-4' } });
    expect(missing.map(({ name }) => name).filter((name) => name.startsWith('OpenVINO'))).toEqual([]);
    const folders = contenders
      .filter(({ name }) => name.startsWith('OpenVINO'))
      .map(({ name, settings, command }) => {
        const { program, args } = command({ model: 'm.gguf' }, settings[0] as Setting);
        expect(program).toBe('py-o');
        return [name, (JSON.parse(args[1] as string) as { irFolder?: string }).irFolder];
      });
    expect(folders).toEqual([
      ['OpenVINO GenAI Q4_1', undefined],
      ['OpenVINO GenAI int8', '/ir-8'],
      ['OpenVINO GenAI int4', '/ir-4'],
    ]);
  });

  test('a cache that the memory has no room for is not tried', () => {
    const llama = allContenders({ ...given, llamaCpp: process.execPath }).contenders.find(
      ({ name }) => name === 'llama.cpp Q4_1',
    ) as Contender;
    const job = { longestRow: 4032, cacheElements: 1024 };
    // 8 MiB a sequence in 16 bits, 4.25 in 8.
    const fitting = (mebibytes: number): Setting[] =>
      fittingSettings(llama, job, { freeBytes: mebibytes * 2 ** 20, modelBytes: 2 ** 20 });
    expect(fitting(2 + 8 * 32).map(({ sequences }) => sequences)).toEqual([32, 8]);
    expect(fitting(2 + 4.25 * 128)).toContainEqual({ sequences: 128, arguments: expect.anything() });
    expect(fitting(2)).toEqual([]);
    const paged = { settings: [{ sequences: 10_000 }] };
    expect(fittingSettings(paged, job, { freeBytes: 0, modelBytes: 1 })).toEqual(paged.settings);
  });

  test('of settings that come to the same for the rows that there are, the first one alone is tried', () => {
    const settings = [
      [256, 4096],
      [128, 2048],
      [64, 2048],
      [128, 512],
    ].map(([sequences, batchedTokens]) => ({ sequences, batchedTokens }));
    const tried = (rows: number, meanPromptTokens: number): Setting[] =>
      fittingSettings({ settings }, { rows, meanPromptTokens, longestRow: 1100, cacheElements: 1024 }, {});
    expect(tried(256, 100)).toEqual(settings);
    expect(tried(64, 100)).toEqual([settings[0], settings[1], settings[3]]);
    expect(tried(1, 100)).toEqual([settings[0]]);
    expect(
      fittingSettings({ settings: [{}, { compressCache: '8bit' }] }, { rows: 1, meanPromptTokens: 1 }, {}),
    ).toHaveLength(2);
  });
});

describe('work that compares', () => {
  const job = { rows: 2, maxNewTokens: 10, meanPromptTokens: 45 };
  const lengths = [40, 50, 60];
  const whole = { rows: 2, promptTokens: 90, generatedTokens: 20, seconds: 4, generatedTokensPerSecond: 5 };

  test('another number of tokens is refused', () => {
    expect(comparable(whole, job, lengths)).toEqual(whole);
    expect(() => comparable({ ...whole, promptTokens: 91 }, job, lengths)).toThrow(
      'found 91 prompt tokens, expected 90',
    );
    expect(() => comparable({ ...whole, generatedTokens: 19 }, job, lengths)).toThrow(
      'found 19 new tokens, expected 20',
    );
  });

  test('synthetic prompts have the mean length, in as many rows as the run had', () => {
    const synthetic = { ...whole, synthetic: true, rows: 8, promptTokens: 360, generatedTokens: 80 };
    expect(comparable(synthetic, job, lengths)).toEqual(synthetic);
    expect(() => comparable({ ...synthetic, promptTokens: 90 }, job, lengths)).toThrow('expected 360');
  });

  test('a run that was stopped has the rate of its tokens so far', () => {
    // Half of 110 tokens in 4 s: 20 new ones would take 8.
    const stopped = { ...whole, stopped: true, promptTokens: 40, generatedTokens: 15 };
    expect(comparable(stopped, job, lengths)).toMatchObject({
      generatedTokensPerSecond: 2.5,
      promptTokensPerSecond: 11.25,
      generatedTokens: 15,
    });
    expect(() => comparable({ ...stopped, promptTokens: 0, generatedTokens: 0 }, job, lengths)).toThrow('no row');
  });
});

describe('the best of the others', () => {
  const run = (contender: string, rate: number, more: object = {}): object => ({
    contender,
    version: '1',
    rows: 2,
    promptTokens: 90,
    generatedTokens: 20,
    seconds: 20 / rate,
    stopped: false,
    generatedTokensPerSecond: rate,
    promptTokensPerSecond: 4.5 * rate,
    ...more,
  });
  const entry = (name: string, tool: string, setting: object = {}): object => ({
    contender: { name, tool, model: 'm.gguf' },
    setting,
    tried: [],
  });
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-peers-test-'));
  afterAll(() => {
    rmSync(scratch, { recursive: true });
  });
  const measured = (names: [string, string][], runs: object[]): object => ({
    contenders: names.map(([name, tool]) => entry(name, tool, tool === 'vllm' ? { sequences: 64 } : {})),
    runs,
    source: { decoder: { feedForward: { kind: 'experts' } }, tensors: [] },
    peaks: [{ instructionSet: 'avx2', threads: 2, int8OperationsPerSecond: 1e9 }],
    scratch,
    reference: [
      [5, 6, 7, 8],
      [1, 2, 3, 4],
    ],
  });
  const document = (of: object): object => ({
    date: '2026-11-28',
    machine: { processor: 'p', threads: 2, processors: 2, memoryBytes: 2 ** 30, system: 's', node: '20' },
    workload: { model: 'm.gguf', rows: 2, maxNewTokens: 10, meanPromptTokens: 45, promptTokens: 45 },
    runs: [run('spillway Q4_1', 30)],
    missing: [],
    ...of,
  });
  const names: [string, string][] = [
    ['spillway Q4_1', 'spillway'],
    ['a', 'llama.cpp'],
    ['b', 'vllm'],
  ];

  test('is named with its setting, in the report and in the short table', () => {
    const runs = [run('spillway Q4_1', 30), run('a', 10), run('b', 20, { stopped: true })];
    const whole = document(summarize(measured(names, runs)));
    for (const text of [report(whole), shortTable(whole)]) {
      expect(text).toContain('best of the others is **b** (1, sequences 64): 20.0 generated tokens/s');
      expect(text).toContain('spillway Q4_1 makes 1.50 times as many');
      expect(text).toContain('2 rows, 45 prompt tokens each');
    }
    expect(report(whole)).toContain('1 (1 stopped)');
  });

  test("and how many tokens are the model's is beside each rate, where all of its rows are known", () => {
    const tokens = {
      'spillway Q4_1': [[5, 6, 7, 8], [1, 2, 3, 4], [9]],
      a: [
        [5, 6, 7, 0],
        [0, 2, 3, 4],
      ],
      b: [[5], [1]],
    };
    for (const [name, rows] of Object.entries(tokens))
      writeFileSync(join(scratch, `${name}.json`), JSON.stringify(rows));
    const runs = [run('spillway Q4_1', 30), run('a', 10), run('b', 20, { stopped: true })];
    const whole = document(summarize(measured(names, runs)));
    for (const text of [report(whole), shortTable(whole)]) {
      expect(text).toMatch(/\| tool and weights \| version \|.* tokens as the model \|/);
      for (const [name, share] of [
        ['spillway Q4_1', '100%'],
        ['a', '38%'],
        ['b', '-'],
      ])
        expect(text).toMatch(new RegExp(`\\| ${name} \\| 1 \\|.* ${share} \\|`));
    }
    expect(report(whole)).toContain('- a: 0 of 2 rows alike throughout; 37.5% of all tokens');
  });

  test('is nobody where there are no others', () => {
    expect(bestPeer([], [])).toBeUndefined();
    const alone = document(summarize(measured([['spillway Q4_1', 'spillway']], [run('spillway Q4_1', 30)])));
    expect(report(alone)).not.toContain('best of the others');
  });
});
