import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { UsageError } from '../../src/errors/UsageError.js';
import type { ModelSource } from '../../src/model/ModelSource.js';
import { partOf } from '../../src/model/partOf.js';
import { readModel } from '../../src/model/readModel.js';
import { shareOf } from '../../src/model/shareOf.js';
import type { TensorBinding } from '../../src/model/TensorBinding.js';
import { WEIGHT_TYPES } from '../../src/model/weightTypes.js';
import { at, model } from '../e2e/support.js';

/** The bytes of a matrix whose rows lie as they are, row by row; or of a vector. */
function bytesOf({ files }: ModelSource, binding: TensorBinding): Buffer {
  const { type, columns, rowColumns = columns, segments } = binding;
  const { elements, bytes } = WEIGHT_TYPES[type];
  const [taken, pitch] = [(columns / elements) * bytes, (rowColumns / elements) * bytes];
  return Buffer.concat(
    segments.flatMap(({ file, offset, rows, step = 1 }) => {
      const contents = readFileSync(files[file] ?? '');
      return Array.from({ length: rows }, (_, row) => {
        const at = offset + row * step * pitch;
        return contents.subarray(at, at + taken);
      });
    }),
  );
}

const named = (source: ModelSource, role: string, layer = 0): TensorBinding | undefined =>
  source.bindings.find((binding) => binding.role === role && binding.layer === layer);

describe('a share of each layer', () => {
  test.each(['llama', 'phi3-Q8_0.gguf', 'opt-pre', 'qwen2'])(
    '%s: rows of the shares, and columns, put together are the whole',
    async (name) => {
      const source = await readModel(model(name));
      const of = 2;
      const shares = [0, 1].map((index) => shareOf(source, { index, of }));
      for (const role of ['q.weight', 'q.bias', 'k.weight', 'v.weight', 'gate.weight', 'up.weight', 'up.bias']) {
        const binding = named(source, role);
        if (!binding) continue;
        const parts = shares.map((share) => bytesOf(share, named(share, role) ?? binding));
        expect(Buffer.concat(parts)).toEqual(bytesOf(source, binding));
      }
      for (const role of ['o.weight', 'down.weight']) {
        const binding = named(source, role);
        if (!binding) throw new RangeError(role);
        const parts = shares.map((share) => bytesOf(share, named(share, role) ?? binding));
        const rows = Array.from({ length: binding.rows }, (_, row) =>
          parts.map((part) => {
            const rowBytes = part.length / binding.rows;
            return part.subarray(row * rowBytes, (row + 1) * rowBytes);
          }),
        );
        expect(Buffer.concat(rows.flat())).toEqual(bytesOf(source, binding));
      }
    },
  );

  test('has its heads, and the embedding, the head and biases of sums in the first one alone', async () => {
    const source = await readModel(model('opt-pre'));
    const [first, second] = [0, 1].map((index) => shareOf(source, { index, of: 2 }));
    expect(second?.decoder).toEqual({
      ...source.decoder,
      heads: 2,
      kvHeads: 2,
      feedForwardSize: 48,
      share: { index: 1, of: 2 },
    });
    const roles = (share: ModelSource | undefined): Set<string> => new Set(share?.bindings.map(({ role }) => role));
    const alone = [...roles(first)].filter((role) => !roles(second).has(role)).sort();
    expect(alone).toEqual(
      expect.arrayContaining(['down.bias', 'final_norm.weight', 'o.bias', 'position_embedding', 'token_embedding']),
    );
    expect(roles(second).has('norm1.weight')).toBe(true);
  });

  test('key and value heads are in several shares where there are more shares, the query heads in one', async () => {
    const source = await readModel(model('llama'));
    const shares = [0, 1, 2].map((index) => shareOf(source, { index, of: 3 }));
    expect(shares.map(({ decoder: { heads, kvHeads, feedForwardSize } }) => [heads, kvHeads, feedForwardSize])).toEqual(
      [
        [2, 1, 32],
        [1, 1, 32],
        [1, 1, 32],
      ],
    );
    const parts = (role: string): Buffer[] =>
      shares.map((share) => {
        const binding = named(share, role);
        if (!binding) throw new RangeError(role);
        return bytesOf(share, binding);
      });
    const wholeOf = (role: string): Buffer => bytesOf(source, named(source, role) ?? at(source.bindings, 0));
    expect(Buffer.concat(parts('q.weight'))).toEqual(wholeOf('q.weight'));
    const [first, second, third] = parts('k.weight');
    expect(second).toEqual(third);
    expect(Buffer.concat([first ?? Buffer.of(), second ?? Buffer.of()])).toEqual(wholeOf('k.weight'));
  });

  test('slopes of heads are the heads’ own', async () => {
    const source = await readModel(model('falcon-rw'));
    const { position } = source.decoder;
    if (position.kind !== 'alibi') throw new RangeError(position.kind);
    const ours = shareOf(source, { index: 2, of: 3 }).decoder.position;
    expect(ours.kind === 'alibi' && ours.slopes).toEqual(position.slopes.slice(8, 12));
  });

  test.each([
    [
      'gemma3',
      3,
      "tensorParallel.of: found 3, expected a number into which the model's 2 heads of 40 (1 of keys and values) divide",
    ],
    [
      'llama-Q8_0.gguf',
      3,
      /the model's 4 heads of 16 \(2 of keys and values\) divide in whole blocks of 32 weights: a file/,
    ],
    [
      'llama-float8',
      2,
      'tensorParallel.of: found 2, expected 1: shares of weights in 8-bit floats (o.weight) are not made',
    ],
    [
      'gpt-oss-mxfp4',
      2,
      "tensorParallel.of: found 2, expected at most the model's 1 blocks of 32 feed-forward columns",
    ],
    ['gemma2-Q8_0.gguf', 2, /the model's 4 heads of 24 \(2 of keys and values\) divide in whole blocks of 32 weights/],
  ] as const)('%s into %i: what does not divide is said', async (name, of, message) => {
    const source = await readModel(model(name));
    expect(() => shareOf(source, { index: 0, of })).toThrow(UsageError);
    expect(() => shareOf(source, { index: 0, of })).toThrow(message);
  });

  test('is of all layers', async () => {
    const source = await readModel(model('llama'));
    expect(partOf(source, { first: 0, count: source.decoder.layers })).toBe(source);
  });
});
