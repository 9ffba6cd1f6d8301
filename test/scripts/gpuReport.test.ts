import { describe, expect, test } from '@jest/globals';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The scripts have no types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../scripts/gpu/${path}`)) as T;
type Interval = [number, number];
interface Row {
  readonly id: number;
  readonly tokens: number[];
  readonly logprobs: { token: number; logprob: number; top: { token: number; logprob: number }[] }[];
}
const { compareAnswers } = await load<{
  compareAnswers(expected: Row[], found: Row[], tolerance: number): { ties: unknown[]; wrong: string[]; equal: number };
}>('compareAnswers.mjs');
const { intersection, overlapOfTrace, union } = await load<{
  intersection(a: Interval[], b: Interval[]): Interval[];
  union(a: Interval[]): Interval[];
  overlapOfTrace(trace: object[]): object;
}>('overlapOfTrace.mjs');
const { againstCap, readDriver } = await load<{
  againstCap(before: object, peak: object, cap: number): { usedBytes: number; within: boolean };
  readDriver(command: string, pid: number): Promise<object>;
}>('driverMemory.mjs');
const { fitPolicy, POLICIES } = await load<{
  fitPolicy(
    policy: object,
    shape: object,
    cpuBytes: number,
    prompt: number,
    generated: number,
  ): { batchSize: number; batches: number } | undefined;
  POLICIES: Record<string, [object, ...object[]]>;
}>('flexgen.mjs');
const { layersThatFit, rowsInTime } = await load<{
  layersThatFit(shape: object, room: object, caps: object): number;
  rowsInTime(plan: object, newTokens: number, wanted: number, most: number): number;
}>('fitToMachine.mjs');
const { OPT_SHAPES, optBytes } = await load<{
  OPT_SHAPES: Record<string, object>;
  optBytes(shape: object): { total: number; cacheToken: number };
}>('optShapes.mjs');
const { prefillProducts } = await load<{
  prefillProducts(bench: object): { products: { share?: number }[]; why?: string };
}>('prefillProducts.mjs');
const { suitesOf, testBySuite } = await load<{
  suitesOf(listing: string): string[];
  testBySuite(
    program: string,
    options?: { processes?: number; seconds?: number },
  ): Promise<{ testsuites: { name: string; testsuite: { name: string; failures?: object[] }[] }[] }>;
}>('testBySuite.mjs');
const { halfBits } = await load<{ halfBits(value: number): number }>('makeOptModel.mjs');

const GIB = 2 ** 30;
const row = (id: number, tokens: number[], logprob = -1): Row => ({
  id,
  tokens,
  logprobs: tokens.map((token) => ({
    token,
    logprob,
    top: [
      { token, logprob },
      { token: token + 1, logprob: logprob - 0.05 },
    ],
  })),
});

test('answers: equal, parted at a near-tie, or wrong', () => {
  const expected = [row(0, [1, 2, 3]), row(1, [4, 5])];
  expect(compareAnswers(expected, expected, 0.1)).toMatchObject({
    rows: 2,
    equal: 2,
    tokens: 5,
    compared: 5,
    ties: [],
    wrong: [],
  });
  expect(compareAnswers(expected, [row(0, [1, 3, 9]), row(1, [4, 5])], 0.1)).toMatchObject({
    equal: 1,
    compared: 3,
    ties: [{ row: 0, token: 1, gap: expect.closeTo(0.05) as unknown }],
    wrong: [],
  });
  expect(compareAnswers(expected, [row(0, [1, 3, 9]), row(1, [4, 5])], 0.02).wrong).toHaveLength(1);
  expect(compareAnswers(expected, [row(0, [1, 7, 3]), row(1, [4, 5])], 10).wrong).toHaveLength(1);
  expect(compareAnswers(expected, [row(0, [1, 2, 3], -1.2), row(1, [4, 5])], 0.1).wrong).toHaveLength(1);
  expect(compareAnswers(expected, [row(0, [1, 2]), row(1, [4, 5, 6])], 0.1)).toMatchObject({
    equal: 0,
    wrong: [expect.any(String), expect.any(String)],
  });
  expect(compareAnswers(expected, [row(0, [1, 2, 3])], 0.1).wrong).toHaveLength(1);
});

test('intervals, and the share of a link that is overlapped', () => {
  expect(
    union([
      [4, 6],
      [0, 1],
      [1, 2],
      [5, 9],
      [3, 3],
    ]),
  ).toEqual([
    [0, 2],
    [4, 9],
  ]);
  expect(
    intersection(
      [
        [0, 4],
        [6, 10],
      ],
      [
        [2, 7],
        [8, 9],
      ],
    ),
  ).toEqual([
    [2, 4],
    [6, 7],
    [8, 9],
  ]);
  const names = ['gpu-compute', 'host-to-device', 'disk-read'].map((name, tid) => ({
    ph: 'M',
    name: 'thread_name',
    tid,
    ts: 0,
    args: { name },
  }));
  const task = (tid: number, ts: number, dur: number): object => ({ ph: 'X', name: 'task', tid, ts, dur, args: {} });
  const trace = [...names, task(1, 0, 4e6), task(0, 3e6, 2e6), task(1, 6e6, 4e6), task(0, 6e6, 1e6), task(2, 0, 12e6)];
  expect(overlapOfTrace(trace)).toEqual({
    linkSeconds: 8,
    computeSeconds: 3,
    overlappedSeconds: 2,
    diskSeconds: 12,
    wallSeconds: 12,
    shareOfLink: 0.25,
    shareOfShorter: 2 / 3,
  });
  expect(overlapOfTrace(names)).toMatchObject({ linkSeconds: 0 });
  expect(overlapOfTrace(names)).not.toHaveProperty('shareOfLink');
});

describe('the driver', () => {
  test('is asked for the device and for the process', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'spillway-driver-'));
    const command = join(folder, 'nvidia-smi');
    const says = (apps: string): void => {
      writeFileSync(command, `#!/bin/sh\ncase $1 in *gpu=*) echo 500; echo 9 ;; *) printf '${apps}' ;; esac\n`);
      chmodSync(command, 0o755);
    };
    says('7, 300\\n8, 40\\n8, [N/A]\\n');
    expect(await readDriver(command, 8)).toEqual({ deviceBytes: 500 * 2 ** 20, processBytes: 40 * 2 ** 20 });
    expect(await readDriver(command, 9)).toEqual({ deviceBytes: 500 * 2 ** 20 });
    says('');
    expect(await readDriver(command, 8)).toEqual({ deviceBytes: 500 * 2 ** 20 });
    await expect(readDriver(join(folder, 'nothing'), 8)).rejects.toThrow('ENOENT');
    rmSync(folder, { recursive: true });
  });

  test("sets the peak beside the cap, by the process's own count where there is one", () => {
    expect(againstCap({ deviceBytes: 5 * GIB }, { samples: 1, deviceBytes: 7 * GIB }, 2 * GIB)).toMatchObject({
      usedBytes: 2 * GIB,
      within: true,
      counted: 'device',
    });
    expect(againstCap({ deviceBytes: 5 * GIB }, { samples: 1, deviceBytes: 8 * GIB }, 2 * GIB).within).toBe(false);
    expect(
      againstCap(
        { deviceBytes: 0, processBytes: GIB },
        { samples: 1, deviceBytes: 8 * GIB, processBytes: 2 * GIB },
        GIB,
      ),
    ).toMatchObject({ usedBytes: GIB, within: true, counted: 'process' });
  });
});

test('shapes are cut to the machine, the published policies to its memory', () => {
  const shape = OPT_SHAPES['opt-30b'] ?? {};
  expect(optBytes(shape).total / GIB).toBeCloseTo(55.8, 1);
  expect((544 * 144 * optBytes(shape).cacheToken) / GIB).toBeCloseTo(100.4, 1);
  const caps = { gpuBytes: 16 * GIB, cpuBytes: 200e9 };
  expect(layersThatFit(shape, { diskBytes: 1e12 }, caps)).toBe(48);
  expect(layersThatFit(shape, { diskBytes: 50 * GIB }, caps)).toBe(38);
  expect(layersThatFit(shape, { diskBytes: 1e12 }, { gpuBytes: 0, cpuBytes: 40 * GIB })).toBe(23);
  expect(layersThatFit(shape, { diskBytes: 1e6 }, caps)).toBe(0);
  // Where the model's files take memory, too.
  expect(layersThatFit(shape, { diskBytes: 1e12, shared: true }, { gpuBytes: 0, cpuBytes: 40 * GIB })).toBe(23);
  expect(layersThatFit(shape, { diskBytes: 1e12, shared: true }, { gpuBytes: 30 * GIB, cpuBytes: 40 * GIB })).toBe(30);
  const [published] = POLICIES['opt-30b'] ?? [{}];
  expect(fitPolicy(published, shape, 200e9, 512, 32)).toMatchObject({
    batchSize: 48,
    batches: 3,
    percent: [20, 80, 0, 100, 0, 100],
  });
  expect(fitPolicy(published, shape, 140 * GIB, 512, 32)).toMatchObject({ batchSize: 48, batches: 2 });
  expect(fitPolicy(published, shape, 75 * GIB, 512, 32)).toMatchObject({ batchSize: 6, batches: 1 });
  expect(fitPolicy(published, shape, 70 * GIB, 512, 32)).toBeUndefined();
});

test('rows are whole blocks where there is time', () => {
  const plan = { policy: { batchSize: 10, batches: 2 }, predicted: { tokensPerSecond: 32 } };
  // A row a second.
  expect(rowsInTime(plan, 32, 70, Infinity)).toBe(60);
  expect(rowsInTime(plan, 32, 70, 50)).toBe(40);
  expect(rowsInTime(plan, 32, 5, 50)).toBe(20);
  expect(rowsInTime(plan, 32, 5, 15)).toBe(15);
  expect(rowsInTime(plan, 32, 5, 0.1)).toBe(1);
});

test.each([
  [1, 0x3c00],
  [-2, 0xc000],
  [0.5, 0x3800],
  [0.1, 0x2e66],
  [6e-5, 0],
  [0, 0],
])('%d as a half', (value, bits) => {
  expect(halfBits(value)).toBe(bits);
});

test("products beside cuBLASLt's", () => {
  const product = (own: number | null, library: number | null, peak: number | null): object => ({
    name: 'p',
    ownOperationsPerSecond: own,
    cublasLtOperationsPerSecond: library,
    cublasLtPeakOperationsPerSecond: peak,
  });
  const { products, why } = prefillProducts({
    cublasLt: '/lib',
    prefillProducts: [product(1e14, 3e14, 4e14), product(3e14, null, 4e14), product(1e14, null, null)],
  });
  expect(products.map(({ share }) => share)).toEqual([0.75, 0.75, undefined]);
  expect(why).toBeUndefined();
  expect(prefillProducts({ cublasLt: 'no such file', prefillProducts: [product(1e14, null, null)] })).toMatchObject({
    why: 'no such file',
  });
  expect(prefillProducts({})).toEqual({ products: [], why: 'the benchmark has no such row' });
});

describe('the report', () => {
  const script = fileURLToPath(new URL('../../scripts/gpu-report.mjs', import.meta.url));
  const write = (
    files: Readonly<Record<string, unknown>>,
  ): { text: string; asked: { what: string; measured: string; holds?: boolean }[] } => {
    const folder = mkdtempSync(join(tmpdir(), 'spillway-report-'));
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(content));
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [script, 'Some GPU, 9.0, 580, 81559 MiB', folder, folder],
      { encoding: 'utf8' },
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const text = readFileSync(stdout.trim(), 'utf8');
    const { asked } = JSON.parse(readFileSync(stdout.trim().replace(/md$/, 'json'), 'utf8')) as {
      asked: { what: string; measured: string }[];
    };
    rmSync(folder, { recursive: true });
    return { text, asked };
  };

  test('of nothing says so in every row', () => {
    const { text, asked } = write({});
    expect(asked.length).toBeGreaterThan(12);
    for (const { measured, ...each } of asked) {
      expect(measured).toContain('not measured yet (not run)');
      expect(each).not.toHaveProperty('holds');
    }
    expect(text).toContain('# The CUDA backend on Some GPU');
  });

  test('has what was measured, what failed, and what was stopped', () => {
    const step = { code: 0, seconds: 1, limit: 60 };
    const tests = (failed: number): object => ({
      testsuites: [
        {
          testsuite: [
            { classname: 'A', name: 'good', result: 'COMPLETED' },
            { classname: 'A', name: 'other', result: 'COMPLETED', ...(failed > 0 && { failures: [{}] }) },
          ],
        },
      ],
    });
    const speed = {
      name: 'opt-6.7b',
      layers: 32,
      layersOfModel: 32,
      caps: { gpuBytes: 16 * GIB, cpuBytes: 100 * GIB },
      tokensPerSecond: 300,
      predictedTokensPerSecond: 400,
      shareOfPredicted: 0.75,
      policy: {},
    };
    const bench = {
      copyBytesPerSecond: 3e12,
      results: [
        { name: 'decode attention, heads 32/32', seconds: 1e-3, bytesPerSecond: 2.4e12, shareOfBandwidth: 0.8 },
        { name: 'multiply Q4_0 4096x4096, rows 1', seconds: 1e-3, bytesPerSecond: 1e12, shareOfBandwidth: 0.3 },
      ],
      cublasLt: 'no such library',
      prefillProducts: [
        {
          name: 'prefill product F16',
          ownOperationsPerSecond: 2e14,
          cublasLtOperationsPerSecond: null,
          cublasLtPeakOperationsPerSecond: null,
        },
      ],
    };
    const { text, asked } = write({
      'kernels-ops.json': tests(0),
      'kernels-ops.step.json': step,
      'kernels-models.json': tests(1),
      'kernels-models.step.json': { ...step, code: 1 },
      'bench.json': bench,
      'bench.step.json': step,
      'speed-opt-6.7b.json': speed,
      'speed-opt-6.7b.step.json': step,
      'speed-opt-30b.step.json': { ...step, code: 124 },
      'peers-opt-6.7b.json': {
        name: 'opt-6.7b',
        layers: 32,
        tokensPerSecond: 100,
        policy: { batchSize: 2, batches: 1, percent: [100, 0, 100, 0, 100, 0] },
      },
      'sanitizer-memcheck.json': { clean: false, parts: 2, of: 8 },
      'sanitizer-memcheck.step.json': { ...step, code: 9 },
    });
    const of = (what: string): object | undefined => asked.find((each) => each.what.startsWith(what));
    expect(of('kernel tests')).toMatchObject({ measured: '2 passed, 0 failed', holds: true });
    expect(of('models')).toMatchObject({ measured: '1 passed, 1 failed', holds: false });
    expect(of('compute-sanitizer')).toMatchObject({
      measured: expect.stringContaining('memcheck found errors after 2 of 8 parts') as unknown,
      holds: false,
    });
    expect(of('OPT-6.7B: tokens/s')).toMatchObject({ measured: '75.0% (300 of 400)', holds: false });
    expect(of('OPT-6.7B: Spillway')).toMatchObject({ measured: '3.00 times (300 and 100 tokens/s)', holds: true });
    expect(of('OPT-30B: tokens/s')).toMatchObject({ measured: 'not measured yet (stopped after 60 s)' });
    expect(of('decode attention')).toMatchObject({ holds: true });
    expect(of('fused 4-bit')).toMatchObject({ holds: false });
    expect(of('prefill product')).toMatchObject({ measured: 'not measured yet (no such library)' });
    for (const words of [
      '- failed: A.other',
      '- kernels-models: exit 1',
      '- speed-opt-30b: stopped after 60 s',
      '| OPT-6.7B |',
    ])
      expect(text).toContain(words);
  });
});

test('suites run in processes of their own, and one that crashes or hangs fails alone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'suites-'));
  const program = join(folder, 'tests');
  writeFileSync(
    program,
    `#!/bin/bash
case "$1" in
  --gtest_list_tests) printf 'Running main() from x.cc\nGood.\n  One\nTypes/Bad.  # TypeParam = int\n  Two/0  # GetParam() = 1\nSlow.\n  Three\n' ;;
  --gtest_filter=Good.\*) echo '{"testsuites": [{"name": "Good", "testsuite": [{"name": "One", "classname": "Good"}]}]}' > "\${3#--gtest_output=json:}" ;;
  --gtest_filter=Types/Bad.\*) kill -SEGV $$ ;;
  --gtest_filter=Slow.\*) exec sleep 60 ;;
esac
`,
  );
  chmodSync(program, 0o755);
  try {
    expect(suitesOf('Running main() from x.cc\nA.\n  B.c\nT/C.  # TypeParam = int\n  D\n')).toEqual(['A', 'T/C']);
    const { testsuites } = await testBySuite(program, { processes: 2, seconds: 1 });
    const found = Object.fromEntries(
      testsuites.map(({ name, testsuite }) => [
        name,
        testsuite.map(({ name: each, failures }) => [each, failures?.length ?? 0]),
      ]),
    );
    expect(found).toEqual({
      Good: [['One', 0]],
      'Types/Bad': [['ended by SIGSEGV', 1]],
      Slow: [['stopped after 1 s', 1]],
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
