import { expect, test } from '@jest/globals';

interface Entry {
  readonly name: string;
  readonly predicted: number;
  readonly taken?: boolean;
  readonly failed?: string;
  readonly runs: readonly { readonly tokensPerSecond: number; readonly othersShare: number }[];
}
/** The benchmarks are scripts without types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../bench/${path}`)) as T;
const { compared, fastestFirst, rankingReport } = await load<{
  compared(situation: { entries: readonly Entry[] }): { taken?: Entry; best?: Entry };
  fastestFirst(entries: readonly Entry[]): Entry[];
  rankingReport(document: object): string;
}>('ranking/report.mjs');

const entry = (name: string, speeds: readonly number[], more: Partial<Entry> = {}): Entry => ({
  name,
  predicted: 12,
  runs: speeds.map((tokensPerSecond) => ({ tokensPerSecond, othersShare: 0 })),
  ...more,
});
const entries = [
  entry('taken: a', [5, 9, 10, 9.5], { taken: true }),
  entry('b', [12, 9, 9.2, 8]),
  entry('c', [11, 9.8, 10.2, 10]),
  entry('d', [10.9]),
  entry('e', [], { failed: 'killed for memory' }),
];

test('the run that chose whom to compare is not compared', () => {
  expect(fastestFirst(entries).map(({ name }) => name)).toEqual(['d', 'c', 'taken: a', 'b']);
  const { taken, best } = compared({ entries });
  expect([taken?.name, best?.name]).toEqual(['taken: a', 'c']);
});

test('a table of all situations, and one of each', () => {
  const words = rankingReport({
    date: '2026-11-28',
    machine: { processor: 'P', memoryMiB: 1 },
    situations: [
      { name: 'm in 0.5 of its size', model: 'm.gguf', rows: 8, capBytes: 2 ** 30, entries },
      { name: 'n', model: 'n.gguf', rows: 8, capBytes: 2 ** 30, entries: entries.slice(3) },
    ],
  });
  expect(words).toContain('| m.gguf | 1024 | 8 | a | 9.50 | 12.0 | c | 10.0 | 12.0 | **95%** |');
  expect(words).toContain('| n.gguf | 1024 | 8 | - | - | - | - | - | - | - |');
  expect(words).toContain('| e | 12.0 | killed for memory |  |');
  expect(words).toContain('| c | 12.0 | 10.0 | 11.0, 9.80, 10.2, 10.0 |');
});
