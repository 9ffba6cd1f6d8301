import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { ENGINE_OPTIONS } from '../../src/engine/open/engineOptions.js';

/** The benchmarks are scripts without types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../bench/${path}`)) as T;

interface Figures {
  readonly rows: number;
  readonly promptTokensPerSecond: number;
  readonly generatedTokensPerSecond: number;
  readonly prefillSeconds: number;
}
const { batchedBenchArguments, readBatchedBench } = await load<{
  batchedBenchArguments(work: object, setting: object): string[];
  readBatchedBench(output: string): Figures | undefined;
}>('peers/batchedBench.mjs');
const { matrixOperations } = await load<{ matrixOperations(source: object, run: object): number | undefined }>(
  'peers/summary.mjs',
);
const { processorSlug, replaceBetween } = await load<{
  processorSlug(processor: string): string;
  replaceBetween(text: string, name: string, content: string): string;
}>('lib/results.mjs');
const { describeProcessor } = await load<{ describeProcessor(name: string, cpuInfo: string): string }>(
  'lib/machine.mjs',
);
const { agreement, median } = await load<{
  agreement(mine: number[][], theirs: number[][]): object;
  median(numbers: number[]): number;
}>('lib/statistics.mjs');
interface OptionRow {
  readonly group: string;
  readonly identity?: boolean;
}
interface Accuracy {
  readonly options?: object;
  readonly name: string;
  readonly baseline?: string;
  readonly perplexity: number;
  readonly rightWords: number;
  readonly words: number;
  readonly weightBits: number;
  readonly cacheBits: number;
}
const { accuracyTable, lossOf } = await load<{
  accuracyTable(results: Accuracy[]): string[];
  lossOf(result: Accuracy, results: Accuracy[]): number | undefined;
}>('accuracy/table.mjs');
const { isRight, lastWords } = await load<{
  isRight(answer: string, word: string): boolean;
  lastWords(words: string[], count: number): { prompt: string; word: string }[];
}>('accuracy/lastWords.mjs');
const { SETTINGS } = await load<{ SETTINGS: Accuracy[] }>('accuracy/settings.mjs');
const { ratesOf, ratios } = await load<{ ratesOf(run: object): object; ratios(runs: object[]): string[] }>(
  'capped/report.mjs',
);

describe('llama-batched-bench', () => {
  const head = '|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |';
  const output = `main: n_kv_max = 4096\n\n${head}\n${head.replaceAll(/[^|]/g, '-')}\n|   100 |     50 |    8 |   1200 |    2.000 |   400.00 |    8.000 |    50.00 |   10.000 |   120.00 |\n\nllama_perf: |x|\n`;

  test('its table is read', () => {
    expect(readBatchedBench(output)).toMatchObject({
      rows: 8,
      promptTokensPerSecond: 80,
      generatedTokensPerSecond: 40,
      prefillSeconds: 2,
      decodeSeconds: 8,
      decodedTokens: 400,
    });
  });

  test('a run that printed no row has no figures', () => {
    expect(readBatchedBench(`${head}\n`)).toBeUndefined();
    expect(readBatchedBench('error: unable to load model')).toBeUndefined();
  });

  test('every sequence has a context of whole 256 tokens, unless one is given', () => {
    const work = { model: 'm.gguf', rows: 8, promptTokens: 200, maxNewTokens: 64, threads: 2 };
    const contextOf = (setting: object): string | undefined => {
      const args = batchedBenchArguments(work, setting);
      return args[args.indexOf('-c') + 1];
    };
    expect(contextOf({ sequences: 8 })).toBe(String(8 * 512));
    expect(contextOf({ sequences: 32 })).toBe(String(8 * 512));
    expect(contextOf({ sequences: 8, contextTokens: 768 })).toBe('768');
    expect(batchedBenchArguments(work, { sequences: 8, arguments: ['-kvu'] }).at(-1)).toBe('-kvu');
  });
});

test('processors of one name are told apart by family, model and the best instruction set', () => {
  const info = 'processor\t: 0\ncpu family\t: 23\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx avx2 fma\n';
  expect(describeProcessor('AMD EPYC', info)).toBe('AMD EPYC (family 23 model 1, avx2)');
  expect(describeProcessor('AMD EPYC', info.replace('avx2', 'avx2 avx512f avx512_vnni'))).toBe(
    'AMD EPYC (family 23 model 1, avx512_vnni)',
  );
  expect(describeProcessor('Apple M4', '')).toBe('Apple M4');
});

describe('operations of a run', () => {
  const layer = [
    { name: 'blk.0.attn_q.weight', shape: [10, 10] },
    { name: 'blk.0.attn_norm.weight', shape: [10] },
  ];
  const table = { name: 'token_embd.weight', shape: [50, 10] };
  const run = { rows: 2, promptTokens: 6, generatedTokens: 4 };
  const decoder = { feedForward: { kind: 'gated' } };

  test('every computed token goes through the layers, every generated one comes from the head', () => {
    expect(matrixOperations({ decoder, tensors: [...layer, table] }, run)).toBe(2 * (100 * 8 + 500 * 4));
    const untied = { decoder, tensors: [...layer, table, { name: 'output.weight', shape: [60, 10] }] };
    expect(matrixOperations(untied, run)).toBe(2 * (100 * 8 + 600 * 4));
  });

  test('a mixture of experts has no such figure', () => {
    expect(matrixOperations({ decoder: { feedForward: { kind: 'experts' } }, tensors: [] }, run)).toBeUndefined();
  });
});

test('medians and agreement', () => {
  expect([median([3, 1, 2]), median([4, 1, 3, 2])]).toEqual([2, 2.5]);
  expect(
    agreement(
      [
        [1, 2, 3],
        [4, 5],
      ],
      [
        [1, 9, 3],
        [4, 5],
      ],
    ),
  ).toEqual({ rowsAlike: 1, rows: 2, tokensBeforeFirstDifference: 3, tokens: 5 });
});

test('rates under a cap: a run that did not come to decoding has none', () => {
  expect(ratesOf({ rows: 4, promptTokens: 40, prefillSeconds: 2, decodedTokens: 12, decodeSeconds: 6 })).toEqual({
    prefill: 20,
    decode: 2,
    step: 2,
  });
  expect(
    ratesOf({ rows: 4, promptTokens: 40, prefilledTokens: 20, prefillSeconds: 2, decodedTokens: 0, decodeSeconds: 0 }),
  ).toEqual({ prefill: 10, decode: undefined, step: undefined });
});

test('runs that planned for themselves are compared as a whole, others by their decoding too', () => {
  const planned = { tool: 'spillway', rows: 4, generatedTokensPerSecond: 19 };
  const free = { ...planned, name: 'spillway, no cap', generatedTokensPerSecond: 20 };
  const whole = '- 0.95 times the tokens/s of spillway, no cap over the whole run, prompts included (19.0 and 20.0)';
  const decoding = { decodedTokens: 12, decodeSeconds: 3 };
  const peer = { tool: 'llama.cpp', name: 'llama.cpp', rows: 4, decodedTokens: 12, decodeSeconds: 6 };
  const lines = (...runs: object[]) => ratios(runs).filter((line) => line.startsWith('- '));
  expect(lines({ ...planned, capBytes: 1 }, free, peer)).toEqual([whole]);
  expect(lines({ ...planned, ...decoding, capBytes: 1 }, free, peer)).toEqual([
    whole,
    '- 2.00 times the decoding speed of llama.cpp',
  ]);
  expect(ratios([free, peer])).toEqual([]);
});

test("a processor's name becomes part of a result's", () => {
  expect(processorSlug('Intel(R) Xeon(R) Processor @ 2.70GHz')).toBe('intel-xeon-processor-2-70ghz');
  expect(processorSlug('AMD EPYC')).toBe('amd-epyc');
});

describe('the table in docs/performance.md', () => {
  test('what stands between the markers is replaced, the rest stays', () => {
    expect(replaceBetween('a\n<!-- t -->\nold\n<!-- /t -->\nb', 't', 'new\n')).toBe(
      'a\n<!-- t -->\nnew\n<!-- /t -->\nb',
    );
    expect(() => replaceBetween('<!-- /t --> <!-- t -->', 't', '')).toThrow('expected both');
  });

  test('the page has the markers that bench/peers.mjs writes between', () => {
    const page = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8');
    expect(replaceBetween(page, 'bench:peers', 'x').length).toBeLessThan(page.length);
  });
});

describe('what precision costs', () => {
  test('a loss is counted from the named baseline, and every baseline is measured before', () => {
    const guessed = { rightWords: 81, words: 400 };
    const exact = { name: 'exact', perplexity: 50, ...guessed, weightBits: 16, cacheBits: 16 };
    const rounded = { name: 'rounded', baseline: 'exact', perplexity: 51, ...guessed, weightBits: 4.5, cacheBits: 8.5 };
    expect(lossOf(exact, [exact, rounded])).toBeUndefined();
    expect(lossOf(rounded, [exact, rounded])).toBeCloseTo(0.02, 12);
    expect(accuracyTable([exact, rounded])[3]).toBe('| rounded | 51.00 | 2.00% | exact | 20.3% | 4.5 | 8.5 |');
    SETTINGS.forEach(({ baseline }, at) => {
      if (baseline !== undefined) expect(SETTINGS.slice(0, at).map(({ name }) => name)).toContain(baseline);
    });
    expect(new Set(SETTINGS.map(({ name }) => name)).size).toBe(SETTINGS.length);
  });

  test('every switch that changes results is measured', () => {
    const measured = new Set(SETTINGS.flatMap(({ options = {} }) => Object.keys(options)));
    // The others of these are parts of a model, or give the same bits on what they are for.
    for (const [name, { group, identity = false }] of Object.entries(ENGINE_OPTIONS as Record<string, OptionRow>))
      if (identity && group === 'compression') expect(measured).toContain(name);
  });

  test('last words are of five letters and more, end a sentence, and were said before in the passage', () => {
    const filler = Array.from({ length: 300 }, (_, at) => (at === 7 ? 'Harpoon,' : 'and'));
    // Words of which there are this many are common.
    const rest = Array.from({ length: 7000 }, (_, at) => (at % 100 === 0 ? 'about.' : 'and'));
    const words = [...filler, 'whale.', 'harpoon.”', ...filler, 'and.', 'harpoon', 'harpoon!', ...rest];
    expect(lastWords(words, 9).map(({ word }) => word)).toEqual(['harpoon', 'harpoon']);
    expect(lastWords(words, 1)).toEqual([{ prompt: [...filler.slice(1), 'whale.'].join(' '), word: 'harpoon' }]);
  });

  test('an answer is right where its first word has the same letters', () => {
    expect(
      [' harpoon. He', 'Harpoon', '“harpoon,” said', 'harpoon—which'].map((answer) => isRight(answer, 'harpoon')),
    ).toEqual([true, true, true, true]);
    expect(['harpoons', '', ' the harpoon'].map((answer) => isRight(answer, 'harpoon'))).toEqual([false, false, false]);
  });
});
