import { expect, test } from '@jest/globals';

/** The benchmarks are scripts without types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../bench/${path}`)) as T;
const { attemptsOf, choicesOf, errorsOf, policyReport, quantile } = await load<{
  attemptsOf(runs: object[]): object[];
  choicesOf(runs: object[]): { name: string; best: string; share: number }[];
  errorsOf(runs: object[], which?: string): { count: number; median: number; ninetieth: number; bias: number };
  policyReport(document: object): string;
  quantile(numbers: number[], part: number): number;
}>('policy/report.mjs');
const { correctionsAfter } = await load<{ correctionsAfter(runs: object[]): Record<string, number> | undefined }>(
  'policy/learned.mjs',
);
const { casesOf, gridOf, policyOf } = await load<{
  casesOf(bytes: number): { name: string; block: object }[];
  gridOf(bytes: number): { blocks: object[] }[];
  policyOf(block: object): { weights: { cpu: number; disk: number } };
}>('policy/cases.mjs');

const run = (predicted: number, measured: number, more: object = {}): object => ({
  model: 'm',
  name: 'n',
  policy: 'p',
  predicted,
  measured,
  ...more,
});

test('errors are of all runs that have both figures', () => {
  const { count, median, ninetieth, bias } = errorsOf([
    run(110, 100),
    run(90, 100),
    run(150, 100),
    { model: 'm', failed: 'x' },
    { ...run(1, 1), predicted: undefined },
  ]);
  expect([count, ninetieth]).toEqual([3, 0.5]);
  expect(median).toBeCloseTo(0.1, 9);
  expect(bias).toBeCloseTo(0.1, 9);
  expect(quantile([5, 1, 4, 2, 3], 0.9)).toBe(5);
  expect(quantile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9)).toBe(9);
});

test('each run is predicted by those before it, and errors are said with and without what they taught', () => {
  const work = { 'disk.read': { seconds: 13, profileSeconds: 10 } };
  expect(correctionsAfter([])).toBeUndefined();
  expect(correctionsAfter([{ failed: 'x' }, { work, undisturbed: 0.1 }])).toBeUndefined();
  const [first, second] = [
    correctionsAfter([{ work, undisturbed: 1 }]),
    correctionsAfter([
      { work, undisturbed: 1 },
      { work, undisturbed: 1 },
    ]),
  ].map((each) => each?.['disk.read'] ?? 1);
  expect(first).toBeGreaterThan(1.1);
  expect(second).toBeGreaterThan(first ?? Infinity);
  const both = [run(105, 100, { predictedAlone: 130 }), run(95, 100, { predictedAlone: 120 })];
  expect(errorsOf(both, 'predictedAlone').median).toBeCloseTo(0.25, 9);
  const machine = { processor: 'P', processors: 2, threads: 2, memoryBytes: 2 ** 30, system: 's', node: '20' };
  const words = policyReport({ date: 'd', machine, profile: { measuredAt: 't' }, runs: both });
  expect(words).toContain('by the profile alone the median error is 25.0%, the 90th percentile 30.0% (bias +25%)');
  expect(words).toContain('| 100 | 105 | +5% | 130 (+30%) |');
});

test('the chosen plan is set against the best median of its own grid', () => {
  const grid = { grid: 'all in memory' };
  const choices = choicesOf([
    run(0, 95, { ...grid, name: 'chosen', auto: true }),
    run(0, 80, { ...grid, name: '1 x 16' }),
    run(0, 100, { ...grid, name: '1 x 64' }),
    run(0, 120, { ...grid, name: '1 x 64' }),
    run(0, 500, { grid: 'another', name: '1 x 64' }),
    run(0, 700, { name: 'no grid' }),
  ]);
  expect(choices).toMatchObject([{ name: 'm all in memory', best: '1 x 64', bestMeasured: 110 }]);
  expect(choices[0]?.share).toBeCloseTo(95 / 110, 9);
});

test('what was made again is told, and its errors too', () => {
  const again = run(110, 100, { attempts: [{ predicted: 200, measured: 100 }] });
  const runs = [again, run(90, 100, { attempts: [], changed: true }), run(105, 100)];
  expect(attemptsOf(runs)).toHaveLength(4);
  const machine = { processor: 'P', processors: 2, threads: 2, memoryBytes: 2 ** 30, system: 's', node: '20' };
  const words = policyReport({ date: 'd', machine, profile: { measuredAt: 't' }, runs });
  expect(words).toContain('**3 runs: the median error of predicted tokens/s is 10.0%, the 90th percentile 10.0%');
  expect(words).toContain('1 attempts during which');
  expect(words).toContain('1 runs stand although');
  expect(words).toContain('With all attempts counted the median error is 10.0%, the 90th percentile 100.0%.');
  expect(policyReport({ date: 'd', machine, profile: { measuredAt: 't' }, runs: [run(105, 100)] })).not.toContain(
    'made again',
  );
});

test('the report names runs without figures and marks those that were disturbed', () => {
  const machine = { processor: 'P', processors: 2, threads: 2, memoryBytes: 2 ** 30, system: 's', node: '20' };
  const words = policyReport({
    date: 'd',
    machine,
    profile: { measuredAt: 't' },
    runs: [
      run(110, 100, { othersShare: 0.5, queues: { 'cpu-compute': 2 }, predictedQueues: { 'cpu-compute': 3 } }),
      run(1, 1, { failed: 'it broke' }),
    ],
  });
  expect(words).toContain('**1 runs: the median error of predicted tokens/s is 10.0%');
  expect(words).toContain('| m | n | p | 100 * | 110 | +10% |  | 2.00 / 3.00 |');
  expect(words).toContain('m, n: it broke');
});

test('at least 24 runs of one small and three large models: caps, placements and compression among them, each name once', () => {
  const cases = [casesOf(1e8), casesOf(6e8), casesOf(2e9), casesOf(4e9)];
  expect(cases.flat().length).toBeGreaterThanOrEqual(24);
  for (const list of cases) {
    expect(new Set(list.map(({ name }) => name)).size).toBe(list.length);
    for (const word of ['capShare', 'cache', '4bit', 'weights']) expect(JSON.stringify(list)).toContain(word);
    for (const { block } of list) expect(policyOf(block).weights.cpu + policyOf(block).weights.disk).toBe(1);
  }
  expect(gridOf(1e8).length * (gridOf(1e8)[0]?.blocks.length ?? 0)).toBeGreaterThanOrEqual(8);
});
