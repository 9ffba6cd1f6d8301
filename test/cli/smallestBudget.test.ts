import { writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { DUCKDB_BYTES } from '../../src/jobs/input/duckDbLimit.js';
import { CPU_MACHINE } from '../plan/support/hardware.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { float32, string, uint32, writeGguf, type GgufTensorInput } from '../model/support/GgufWriter.js';
import { runCli } from './support.js';

const path = temporaryFolder();
const [LAYERS, WIDTH, INNER, VOCABULARY] = [6, 256, 512, 16_384];

beforeAll(() => {
  const matrix = (name: string, rows: number, columns = WIDTH): GgufTensorInput => ({
    name: `${name}.weight`,
    type: 'F16',
    shape: [rows, columns],
  });
  const vector = (name: string): GgufTensorInput => ({ name: `${name}.weight`, type: 'F32', shape: [WIDTH] });
  const layers = Array.from({ length: LAYERS }, (_, layer) => [
    vector(`blk.${layer}.attn_norm`),
    vector(`blk.${layer}.ffn_norm`),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((name) => matrix(`blk.${layer}.${name}`, WIDTH)),
    matrix(`blk.${layer}.ffn_gate`, INNER),
    matrix(`blk.${layer}.ffn_up`, INNER),
    matrix(`blk.${layer}.ffn_down`, WIDTH, INNER),
  ]).flat();
  const metadata = Object.entries({
    block_count: LAYERS,
    context_length: 2048,
    embedding_length: WIDTH,
    feed_forward_length: INNER,
    'attention.head_count': 4,
    'attention.head_count_kv': 4,
    vocab_size: VOCABULARY,
  });
  // Of zeros alone: what is asked here is what it takes, and that rows come out.
  const { bytes } = writeGguf({
    metadata: [
      ['general.architecture', string('llama')],
      ...metadata.map(([key, value]) => [`llama.${key}`, uint32(value)] as const),
      ['llama.attention.layer_norm_rms_epsilon', float32(1e-5)],
      ['llama.rope.freq_base', float32(10_000)],
    ],
    tensors: [matrix('token_embd', VOCABULARY), ...layers, vector('output_norm')],
  });
  writeFileSync(path('m.gguf'), bytes);
  writeLines(
    path('in.jsonl'),
    Array.from({ length: 6 }, (_, i) => ({ tokens: [1, 2 + i, 3], maxNewTokens: 3 })),
  );
  const { processorName, processors, memoryBytes } = loadAddon().machine();
  writeFileSync(
    path('here.json'),
    JSON.stringify({ ...CPU_MACHINE, machine: { processorName, processors, memoryBytes } }),
  );
  writeFileSync(path('policy.json'), JSON.stringify({ schedule: 'zigzag', batchSize: 8, batches: 2 }));
});

/** @returns the exit code, and the budget that a refusal names */
async function run(
  budget: number | string,
  more: readonly string[],
): Promise<{ readonly code: number; readonly needed: number }> {
  const { code, stderr } = await runCli([
    'generate',
    '--model',
    path('m.gguf'),
    ...(more.includes('--input') ? [] : ['--input', path('in.jsonl')]),
    '--output',
    '-',
    '--disk',
    path('disk'),
    '--cpu-memory',
    String(budget),
    ...more,
  ]);
  const needed = Number(
    /the smallest budget that works (?:beside them )?is .* \(--cpu-memory (\d+)\)/.exec(stderr)?.[1] ?? NaN,
  );
  if (code !== 0 && code !== 3) throw new Error(stderr);
  return { code, needed };
}

/**
 * The flags, and whether as many starts are made as it takes to be sure of the figure: elsewhere it is the same code.
 */
const CASES: readonly (readonly [string, readonly string[], boolean])[] = [
  ['no more flags', [], false],
  ['--policy default', ['--policy', 'default'], false],
  ['a plan that is searched', ['--hardware', path('here.json')], true],
  ['--policy FILE', ['--policy', path('policy.json')], false],
  ['a small block', ['--batch-size', '8', '--batches', '1'], false],
  ['a large block', ['--batch-size', '48', '--batches', '3'], false],
  ['a query of DuckDB', ['--input', 'sql:select [1, 2, i] as tokens from range(3, 9) r(i)'], false],
  ['a compressed cache', ['--compress-cache', '4bit'], false],
  [
    'any compression',
    ['--hardware', path('here.json'), '--compress-weights', 'auto', '--compress-cache', 'auto'],
    false,
  ],
];
const found = new Map<string, number>();

describe('the smallest budget that a refusal names', () => {
  test.each(CASES)(
    'with %s works, a little less does not, and another start says the same',
    async (name, more, surely) => {
      const { code, needed } = await run('32MiB', more);
      expect({ code, needed }).toEqual({ code: 3, needed: expect.any(Number) });
      found.set(name, needed);
      for (const less of surely ? [Math.floor(needed * 0.97), needed - 1] : [])
        expect(await run(less, more)).toEqual({ code: 3, needed });
      expect(await run(needed, more)).toMatchObject({ code: 0 });
    },
  );

  test('is that of the smallest block, whoever plans; what is fixed costs what it costs', () => {
    const of = (name: string): number => found.get(name) ?? NaN;
    const least = of('no more flags');
    // What a plan puts on disk may take a little less.
    expect(least).toBeLessThanOrEqual(of('--policy default'));
    expect(of('a plan that is searched')).toBe(least);
    expect(of('a small block')).toBeLessThan(of('a large block'));
    for (const fixed of ['a small block', '--policy FILE']) expect(of(fixed)).toBeGreaterThanOrEqual(least);
    // It has a part of its own.
    expect(of('a query of DuckDB')).toBeGreaterThanOrEqual(least + DUCKDB_BYTES);
    for (const compressed of ['a compressed cache', 'any compression'])
      expect(of(compressed)).toBeLessThanOrEqual(least);
  });
});
