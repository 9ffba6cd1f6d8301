import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { Engine, type EngineOptions, type RowResult } from '../../src/index.js';
import { WEIGHT_TYPES, type WeightType } from '../../src/model/weightTypes.js';
import { tensorBytes, uint32, writeGguf, type GgufTensorInput } from '../model/support/GgufWriter.js';
import { TINY_LLAMA_GGUF } from '../model/support/tinyLlama.js';
import { dequantise } from '../support/model/dequantise.js';

/** Types without a model of their own in test/fixtures, and what makes a block's random bytes a block: a scale. */
const BLOCKS: readonly (readonly [WeightType, (block: Uint8Array, scale: number) => void])[] = [
  ['IQ4_NL', (block, scale) => new DataView(block.buffer).setUint16(block.byteOffset, half(scale), true)],
  ['IQ4_XS', (block, scale) => new DataView(block.buffer).setUint16(block.byteOffset, half(scale / 30), true)],
  ['MXFP4', (block, scale) => (block[0] = 128 + Math.round(Math.log2(10 * scale)))],
];

/** A half near a positive number below 1. */
function half(number: number): number {
  if (number < 2 ** -14) return Math.round(number * 2 ** 24);
  const exponent = Math.floor(Math.log2(number));
  return ((exponent + 15) << 10) | Math.floor((number / 2 ** exponent - 1) * 1024);
}

const ROWS = [[3, 4, 5], [6, 3, 7, 4, 5, 5, 3, 6, 4], [5], [4, 4, 7, 6, 3, 5, 6, 7, 7, 3, 4, 6], [7, 3]].map(
  (tokens, id) => ({ id, tokens }),
);

async function answers(options: EngineOptions): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 5, threads: 2, ...options });
  const rows: RowResult[] = [];
  for await (const row of engine.generate(ROWS, { maxNewTokens: 8, logprobs: 8, ignoreEos: true })) rows.push(row);
  return rows.sort((a, b) => Number(a.id) - Number(b.id));
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-types-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe.each(BLOCKS)('a model of %s', (type, fill) => {
  const [quantised, floats] = ['quantised.gguf', 'floats.gguf'];
  const { elements } = WEIGHT_TYPES[type];
  const wider = elements / 32; // than the tiny model, so that its rows are whole blocks
  beforeAll(() => {
    let state = 12345;
    const random = (): number => (state = (state * 16807) % 2147483647) / 2147483647;
    const tensors = TINY_LLAMA_GGUF.tensors.map((tensor): GgufTensorInput => {
      const { name } = tensor;
      const shape = tensor.shape.map((size) => (size < 16 ? size : size * wider));
      if (shape.length === 1)
        return {
          name,
          type: 'F32',
          shape,
          data: new Uint8Array(Float32Array.from({ length: shape[0] ?? 0 }, () => 0.5 + random()).buffer),
        };
      const data = Uint8Array.from({ length: tensorBytes(type, shape) }, () => Math.floor(256 * random()));
      const block = tensorBytes(type, [elements]);
      for (let at = 0; at < data.length; at += block)
        fill(data.subarray(at, at + block), (0.1 + 0.9 * random()) / 1000 / wider);
      return { name, type, shape, data };
    });
    const plain = tensors.map((tensor): GgufTensorInput =>
      tensor.type === 'F32' || tensor.data === undefined
        ? tensor
        : { ...tensor, type: 'F32', data: new Uint8Array(Float32Array.from(dequantise(type, tensor.data)).buffer) },
    );
    const sizes = ['llama.embedding_length', 'llama.feed_forward_length', 'llama.rope.dimension_count'];
    const metadata = TINY_LLAMA_GGUF.metadata.map(([key, value]) => {
      const widened = sizes.includes(key) && 'value' in value ? uint32(Number(value.value) * wider) : value;
      return [key, widened] as const;
    });
    writeFileSync(join(folder, quantised), writeGguf({ metadata, tensors }).bytes);
    writeFileSync(join(folder, floats), writeGguf({ metadata, tensors: plain }).bytes);
  });

  describe.each(loadAddon().machine().instructionSets)('on %s', (instructionSet) => {
    test('in float32 has the bits of the same numbers as F32', async () => {
      const options = { precision: 'float32', instructionSet } as const;
      const exact = await answers({ ...options, model: join(folder, floats) });
      expect(exact.flatMap(({ logprobs }) => logprobs ?? [])).toHaveLength(8 * ROWS.length);
      expect(await answers({ ...options, model: join(folder, quantised) })).toEqual(exact);
    });

    test('by default comes near them', async () => {
      const first = async (options: EngineOptions): Promise<Map<number, number>[]> =>
        (await answers({ ...options, instructionSet })).map(
          ({ logprobs }) => new Map(logprobs?.[0]?.top.map(({ token, logprob }) => [token, logprob])),
        );
      const exact = await first({ precision: 'float32', model: join(folder, floats) });
      const near = await first({ model: join(folder, quantised) });
      expect(exact.map(({ size }) => size)).toEqual(ROWS.map(() => 8));
      for (const [row, numbers] of exact.entries())
        for (const [token, logprob] of numbers)
          expect(Math.abs((near[row]?.get(token) ?? NaN) - logprob)).toBeLessThan(0.2);
    });
  });
});
