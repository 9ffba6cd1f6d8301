import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readGgufModel } from '../../../src/model/gguf/readGgufModel.js';
import { parseSplitName } from '../../../src/model/modelFiles.js';
import { makeFolder } from '../support/folders.js';
import { scalar, uint32, writeGguf } from '../support/GgufWriter.js';
import type { GgufInput } from '../support/GgufWriter.js';
import { tinyLlamaSplit, TINY_LLAMA_GGUF } from '../support/tinyLlama.js';

const nameOf = (number: number, count = 3): string => `tiny-0000${number}-of-0000${count}.gguf`;

async function splitFolder(inputs: readonly GgufInput[]): Promise<string> {
  return makeFolder(Object.fromEntries(inputs.map((input, index) => [nameOf(index + 1), writeGguf(input).bytes])));
}
const replaced = (input: GgufInput, key: string, value: number): GgufInput => ({
  ...input,
  metadata: input.metadata.map((pair) => (pair[0] === key ? [key, scalar('uint16', value)] : pair)),
});

describe('one file', () => {
  test('gives tensors, metadata and what the tokenizer is built from', async () => {
    const path = join(await makeFolder({ 'tiny.gguf': writeGguf(TINY_LLAMA_GGUF).bytes }), 'tiny.gguf');
    const { header, files, tokenizer } = await readGgufModel(path);
    expect(files).toEqual([path]);
    expect(header.tensors.map((tensor) => tensor.name)).toEqual(TINY_LLAMA_GGUF.tensors.map((tensor) => tensor.name));
    expect(header.metadata.get('llama.block_count')).toBe(1);
    expect(tokenizer.kind === 'gguf' && [...tokenizer.metadata.keys()]).toEqual(
      TINY_LLAMA_GGUF.metadata.map(([key]) => key).filter((key) => key.startsWith('tokenizer.')),
    );
  });

  test('without a vocabulary there is no tokenizer, and a reason', async () => {
    for (const [metadata, endTokens] of [
      [[], []],
      [[['tokenizer.ggml.eos_token_id', uint32(5)]], [5]],
    ] as const) {
      const path = join(await makeFolder({ 'tiny.gguf': writeGguf({ metadata, tensors: [] }).bytes }), 'tiny.gguf');
      expect((await readGgufModel(path)).tokenizer).toEqual({
        kind: 'none',
        reason: expect.stringContaining('tokenizer.ggml.tokens'),
        endTokens,
      });
    }
  });

  test('a name as of a split model makes no split model, and split.count 1 needs no such name', async () => {
    const one = {
      ...TINY_LLAMA_GGUF,
      metadata: [['split.count', scalar('uint16', 1)] as const, ...TINY_LLAMA_GGUF.metadata],
    };
    const folder = await makeFolder({ [nameOf(2)]: writeGguf(TINY_LLAMA_GGUF).bytes, 'x.gguf': writeGguf(one).bytes });
    for (const name of [nameOf(2), 'x.gguf']) expect((await readGgufModel(join(folder, name))).files).toHaveLength(1);
  });
});

describe('tensors that belong to the description', () => {
  const withFactors = (type: 'F32' | 'F16', elements: number, data = new Float32Array(elements)): GgufInput => ({
    ...TINY_LLAMA_GGUF,
    tensors: [
      ...TINY_LLAMA_GGUF.tensors,
      {
        name: 'rope_freqs.weight',
        type,
        shape: [elements],
        data: new Uint8Array(data.buffer).slice(0, elements * 2 * (type === 'F32' ? 2 : 1)),
      },
    ],
  });
  const read = async (input: GgufInput): ReturnType<typeof readGgufModel> =>
    readGgufModel(join(await makeFolder({ 'x.gguf': writeGguf(input).bytes }), 'x.gguf'));

  test('are read', async () => {
    expect((await read(TINY_LLAMA_GGUF)).header.vectors).toEqual(new Map());
    const factors = Float32Array.of(1, 1, 2.5, 8);
    expect((await read(withFactors('F32', 4, factors))).header.vectors).toEqual(
      new Map([['rope_freqs.weight', factors]]),
    );
  });

  test('are refused where they are of another type or too long', async () => {
    await expect(read(withFactors('F16', 4))).rejects.toThrow(
      /tensor rope_freqs.weight: found type F16, shape \[4\], expected type F32/,
    );
    await expect(read(withFactors('F32', 5000))).rejects.toThrow(/shape \[5000\]/);
  });
});

describe('a split model', () => {
  test.each([1, 2, 3])('is whole, given file %i', async (number) => {
    const folder = await splitFolder(tinyLlamaSplit(3));
    const { header, files } = await readGgufModel(join(folder, nameOf(number)));
    expect(files).toEqual([1, 2, 3].map((n) => join(folder, nameOf(n))));
    expect(header.tensors.map((tensor) => tensor.name)).toEqual(TINY_LLAMA_GGUF.tensors.map((tensor) => tensor.name));
    expect(header.tensors.map((tensor) => tensor.file)).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]);
    expect(header.metadata.get('llama.block_count')).toBe(1);
  });

  test('names the files that are missing', async () => {
    const folder = await splitFolder(tinyLlamaSplit(3));
    await rm(join(folder, nameOf(1)));
    await rm(join(folder, nameOf(3)));
    await expect(readGgufModel(join(folder, nameOf(2)))).rejects.toThrow(
      `found 2 of 3 missing: ${nameOf(1)}, ${nameOf(3)}, expected all 3 files in one folder`,
    );
  });

  test('is refused under another name', async () => {
    const folder = await splitFolder(tinyLlamaSplit(3));
    await rename(join(folder, nameOf(1)), join(folder, 'other.gguf'));
    await expect(readGgufModel(join(folder, 'other.gguf'))).rejects.toThrow(
      /file name: found a file of a model that is split into 3/,
    );
    await rename(join(folder, nameOf(2)), join(folder, nameOf(2, 4)));
    await expect(readGgufModel(join(folder, nameOf(2, 4)))).rejects.toThrow(/ends in -0000N-of-00003.gguf/);
  });

  test('is refused where numbers or counts disagree', async () => {
    const inputs = tinyLlamaSplit(3);
    const changed = async (index: number, key: string, value: number): Promise<string> =>
      join(await splitFolder(inputs.map((input, i) => (i === index ? replaced(input, key, value) : input))), nameOf(1));
    await expect(readGgufModel(await changed(1, 'split.no', 2))).rejects.toThrow(
      /tiny-00002.*split.no: found 2, expected 1/,
    );
    await expect(readGgufModel(await changed(2, 'split.count', 2))).rejects.toThrow(
      /tiny-00003.*split.count: found 2, expected 3/,
    );
    await expect(readGgufModel(await changed(0, 'split.tensors.count', 12))).rejects.toThrow(
      /split.tensors.count: found 12, and 11 tensors in the 3 files/,
    );
  });

  test('is refused where two files have one tensor', async () => {
    const inputs = tinyLlamaSplit(3);
    const folder = await splitFolder(inputs);
    await writeFile(
      join(folder, nameOf(3)),
      writeGguf({ ...inputs[2], metadata: inputs[2]?.metadata ?? [], tensors: inputs[1]?.tensors.slice(0, 3) ?? [] })
        .bytes,
    );
    await expect(readGgufModel(join(folder, nameOf(1)))).rejects.toThrow(
      /tensor blk.0.attn_v.weight: found the name also in .*00002/,
    );
  });
});

test('names of split files', () => {
  expect(parseSplitName('a-b-00002-of-00010.gguf')).toEqual({ prefix: 'a-b', number: 2, count: 10 });
  expect(parseSplitName('a-2-of-10.gguf')).toBeUndefined();
  expect(parseSplitName('a.gguf')).toBeUndefined();
});
