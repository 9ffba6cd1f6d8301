import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { WEIGHT_TYPES, type WeightType } from '../../../src/model/weightTypes.js';
import { readGgufFile } from '../../../src/model/gguf/readGgufFile.js';
import { cpuSeconds } from '../support/expectBounded.js';
import { makeFolder } from '../support/folders.js';
import { array, scalar, string, uint32, writeGguf } from '../support/GgufWriter.js';
import type { GgufInput } from '../support/GgufWriter.js';

const EMPTY: GgufInput = { metadata: [], tensors: [] };

async function fileOf(bytes: Uint8Array): Promise<string> {
  return join(await makeFolder({ 'model.gguf': bytes }), 'model.gguf');
}
const read = async (input: GgufInput): ReturnType<typeof readGgufFile> =>
  readGgufFile(await fileOf(writeGguf(input).bytes));
const withTensor = (type: WeightType | number, ...shape: number[]): GgufInput => ({
  ...EMPTY,
  tensors: [{ name: 'x', type, shape }],
});

describe('a GGUF file that is in order', () => {
  test.each([2, 3])('version %i is read', async (version) => {
    expect(await read({ ...withTensor('F32', 4), version })).toMatchObject({ version, tensors: [{ name: 'x' }] });
  });

  test('every kind of metadata value comes back', async () => {
    const { metadata } = await read({
      ...EMPTY,
      metadata: [
        ['u8', scalar('uint8', 255)],
        ['i8', scalar('int8', -128)],
        ['u16', scalar('uint16', 65535)],
        ['i16', scalar('int16', -32768)],
        ['u32', uint32(2 ** 32 - 1)],
        ['i32', scalar('int32', -(2 ** 31))],
        ['f32', scalar('float32', 0.5)],
        ['f64', scalar('float64', 0.1)],
        ['u64', scalar('uint64', 2n ** 53n - 1n)],
        ['U64', scalar('uint64', 2n ** 64n - 1n)],
        ['i64', scalar('int64', -5n)],
        ['I64', scalar('int64', -(2n ** 63n))],
        ['yes', scalar('bool', true)],
        ['no', scalar('bool', false)],
        ['text', string('é 漢 🎈')],
        ['empty', string('')],
      ],
    });
    expect(Object.fromEntries(metadata)).toEqual({
      u8: 255,
      i8: -128,
      u16: 65535,
      i16: -32768,
      u32: 2 ** 32 - 1,
      i32: -(2 ** 31),
      f32: 0.5,
      f64: 0.1,
      u64: 2 ** 53 - 1,
      U64: 2n ** 64n - 1n,
      i64: -5,
      I64: -(2n ** 63n),
      yes: true,
      no: false,
      text: 'é 漢 🎈',
      empty: '',
    });
  });

  test('arrays of numbers are typed arrays, others plain ones, nested ones too', async () => {
    const { metadata } = await read({
      ...EMPTY,
      metadata: [
        ['f32', array('float32', [0.5, -1])],
        ['i8', array('int8', [-1])],
        ['u64', array('uint64', [2n ** 63n])],
        ['i64', array('int64', [-1n])],
        ['none', array('int32', [])],
        ['text', array('string', ['a', '', 'ß'])],
        ['flags', array('bool', [true, false])],
        [
          'nested',
          { type: 'arrays', values: [array('uint8', [1]), { type: 'arrays', values: [array('string', ['x'])] }] },
        ],
      ],
    });
    expect(Object.fromEntries(metadata)).toEqual({
      f32: Float32Array.of(0.5, -1),
      i8: Int8Array.of(-1),
      u64: BigUint64Array.of(2n ** 63n),
      i64: BigInt64Array.of(-1n),
      none: new Int32Array(0),
      text: ['a', '', 'ß'],
      flags: [true, false],
      nested: [Uint8Array.of(1), [['x']]],
    });
  });

  test.each(Object.keys(WEIGHT_TYPES) as WeightType[])(
    'a tensor of type %s has shape, offset and bytes',
    async (type) => {
      const { tensors } = await read({
        ...EMPTY,
        tensors: [
          { name: 'a', type: 'F32', shape: [3] },
          { name: 'b', type, shape: [2, 3, 512] },
        ],
      });
      const bytes = (6 * 512 * WEIGHT_TYPES[type].bytes) / WEIGHT_TYPES[type].elements;
      expect(tensors[1]).toMatchObject({ name: 'b', type, shape: [2, 3, 512], file: 0, bytes });
      expect(tensors[1]?.offset).toBe((tensors[0]?.offset ?? 0) + 32);
    },
  );

  test('offsets point at the data, with any alignment', async () => {
    for (const alignment of [8, 32, 64, 4096]) {
      const data = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
      const { bytes } = writeGguf({
        ...EMPTY,
        alignment,
        tensors: [
          { name: 'a', type: 'F32', shape: [1] },
          { name: 'b', type: 'F32', shape: [2], data },
        ],
      });
      const { tensors } = await readGgufFile(await fileOf(bytes));
      const offset = tensors[1]?.offset ?? 0;
      expect(offset % alignment).toBe(0);
      expect([...bytes.subarray(offset, offset + 8)]).toEqual([...data]);
    }
  });

  test("strings and arrays larger than the reader's buffer", async () => {
    const words = Array.from({ length: 60_000 }, (_, i) => `word ${i} ${'é'.repeat(i % 9)}`);
    const long = 'x'.repeat(700_001);
    const numbers = Array.from({ length: 100_000 }, (_, i) => i);
    const { metadata } = await read({
      ...withTensor('F32', 4),
      metadata: [
        ['words', array('string', words)],
        ['long', string(long)],
        ['numbers', array('int32', numbers)],
        ['last', uint32(7)],
      ],
    });
    expect(metadata.get('words')).toEqual(words);
    expect(metadata.get('long')).toBe(long);
    expect(metadata.get('numbers')).toEqual(Int32Array.from(numbers));
    expect(metadata.get('last')).toBe(7);
  });

  test('a header of 260,000 tokens and as many merges takes time in proportion to its length', async () => {
    const tokens = Array.from({ length: 260_000 }, (_, i) => `token${i}`);
    const path = await fileOf(
      writeGguf({
        ...EMPTY,
        metadata: [
          ['tokens', array('string', tokens)],
          ['merges', array('string', tokens)],
        ],
      }).bytes,
    );
    const start = process.cpuUsage();
    await readGgufFile(path);
    // Some 0.4 s; looking each text up among those before it would take minutes.
    expect(cpuSeconds(start)).toBeLessThan(10);
  });
});

describe('a GGUF file that is refused', () => {
  const cases: readonly (readonly [what: string, input: GgufInput, message: RegExp])[] = [
    ['version 1', { ...EMPTY, version: 1 }, /version: found 1, expected 2 or 3/],
    ['version 4', { ...EMPTY, version: 4 }, /version: found 4/],
    ['big-endian', { ...EMPTY, version: 3 << 24 }, /found a big-endian file, expected a little-endian one/],
    [
      'a key twice',
      {
        ...EMPTY,
        metadata: [
          ['k', uint32(1)],
          ['k', uint32(2)],
        ],
      },
      /metadata k: found the key a second time/,
    ],
    ['an empty key', { ...EMPTY, metadata: [['', uint32(1)]] }, /key 1 of 1 in the metadata: found an empty name/],
    [
      'a tensor twice',
      {
        ...EMPTY,
        tensors: [
          { name: 't', type: 'F32', shape: [4] },
          { name: 't', type: 'F32', shape: [4] },
        ],
      },
      /tensor t: found the name a second time/,
    ],
    [
      'an I-quant',
      withTensor(16, 256),
      /tensor x: found type IQ2_XXS \(16\), expected one of the supported types: F32, F16, Q4_0,.* BF16/,
    ],
    ['an I-quant of one bit', withTensor(19, 256), /found type IQ1_S \(19\).*; use the model's file of Q2_K or Q3_K_M/],
    [
      'an I-quant of three bits',
      withTensor(21, 256),
      /found type IQ3_S \(21\).*; use the model's file of Q2_K or Q3_K_M/,
    ],
    ['a ternary type', withTensor(34, 256), /found type TQ1_0 \(34\).*; use the model's file of Q2_K or Q3_K_M/],
    ['floats of four bits with two scales', withTensor(40, 256), /found type NVFP4 \(40\).*file of MXFP4 or Q4_K_M/],
    ['a removed type', withTensor(31, 256), /found type Q4_0_4_4 \(31\).*file of Q4_0 or IQ4_NL/],
    ['a type of the future', withTensor(999, 256), /found the unknown type 999/],
    [
      'rows of broken blocks',
      withTensor('Q4_0', 4, 33),
      /tensor x: found rows of 33 elements of type Q4_0, expected rows of whole blocks, multiples of 32/,
    ],
    ['rows of broken K blocks', withTensor('Q4_K', 1, 128), /rows of 128 elements of type Q4_K/],
    ['a dimension of 0', withTensor('F32', 0, 4), /shape \[0, 4\] of type F32/],
    ['no dimensions', withTensor('F32'), /0 dimensions, expected 1 to 4/],
    ['five dimensions', withTensor('F32', 1, 1, 1, 1, 4), /5 dimensions/],
    [
      'overlapping tensors',
      {
        ...EMPTY,
        tensors: [
          { name: 'a', type: 'F32', shape: [16] },
          { name: 'b', type: 'F32', shape: [16], offset: 32 },
        ],
      },
      /tensor b: found bytes from \d+ on, expected no overlap with tensor a/,
    ],
    [
      'a crooked offset',
      { ...EMPTY, tensors: [{ name: 'a', type: 'F32', shape: [16], offset: 16 }] },
      /tensor a: found offset 16, expected a multiple of the file's alignment, 32/,
    ],
    [
      'alignment of no power of two',
      { ...EMPTY, metadata: [['general.alignment', uint32(24)]] },
      /general.alignment: found 24/,
    ],
    ['alignment 0', { ...EMPTY, metadata: [['general.alignment', uint32(0)]] }, /general.alignment: found 0/],
    [
      'alignment of text',
      { ...EMPTY, metadata: [['general.alignment', string('32')]] },
      /general.alignment: found the text 32/,
    ],
    ['arrays nested too deep', { ...EMPTY, metadata: [['n', nest(5)]] }, /nested more than 4 deep/],
  ];
  function nest(depth: number): ReturnType<typeof array> {
    return depth === 1 ? array('uint8', [1]) : { type: 'arrays', values: [nest(depth - 1)] };
  }

  test.each(cases)('%s', async (_, input, message) => {
    await expect(read(input)).rejects.toThrow(message);
    await expect(read(input)).rejects.toMatchObject({
      code: 'model-file',
      file: expect.stringContaining('model.gguf'),
    });
  });

  test('something else', async () => {
    await expect(readGgufFile(await fileOf(Buffer.from('not a model at all')))).rejects.toThrow(
      /magic: found the bytes 6e 6f 74 20, expected the bytes 47 47 55 46/,
    );
    await expect(readGgufFile(await fileOf(new Uint8Array(0)))).rejects.toThrow(/magic: found the end of the file/);
    await expect(readGgufFile(await makeFolder())).rejects.toThrow(/found a folder, expected a file/);
    await expect(readGgufFile('/nonexistent/model.gguf')).rejects.toThrow(/found nothing at that path/);
    await expect(readGgufFile('a\0b.gguf')).rejects.toMatchObject({ code: 'model-file' });
  });

  test('a boolean that is neither, a value type that is none, text in a name that is no UTF-8', async () => {
    const { bytes } = writeGguf({ ...EMPTY, metadata: [['flag', scalar('bool', true)]] });
    bytes[bytes.length - 1] = 2;
    await expect(readGgufFile(await fileOf(bytes))).rejects.toThrow(/metadata flag: found the byte 2 as a boolean/);
    bytes.writeUInt32LE(13, bytes.length - 5);
    await expect(readGgufFile(await fileOf(bytes))).rejects.toThrow(/metadata flag: found the unknown value type 13/);
    bytes[bytes.indexOf('flag')] = 0xff;
    await expect(readGgufFile(await fileOf(bytes))).rejects.toThrow(/a name that is no UTF-8/);
  });

  test.each([
    [
      'tensor count',
      /tensor count: found 18446744073709551615, expected at most \d+, as \d+ bytes of the file are left/,
    ],
    ['metadata count', /metadata count: found 18446744073709551615/],
    [
      'length of words',
      /key 1 of 2 in the metadata: found a string of 18446744073709551615 bytes at offset \d+, expected at most \d+/,
    ],
    [
      'count of words',
      /metadata words: found an array of 18446744073709551615 elements at offset \d+, expected at most \d+/,
    ],
    ['length of a string of words', /metadata words\[0\]: found a string of 18446744073709551615 bytes/],
    ['length of a string of text', /metadata text: found a string of 18446744073709551615 bytes/],
    ['length of x', /name of tensor 1 of 1: found a string of 18446744073709551615 bytes/],
    ['offset of x', /tensor x: found offset 18446744073709551615, expected an offset inside the file/],
  ])('a %s that the file cannot hold is named', async (what, message) => {
    const metadata = [
      ['words', array('string', ['a', 'b'])],
      ['text', string('t')],
    ] as const;
    const { bytes, fields } = writeGguf({ ...withTensor('F32', 4), metadata });
    bytes.writeBigUInt64LE(2n ** 64n - 1n, fields.find((field) => field.what === what)?.offset);
    await expect(readGgufFile(await fileOf(bytes))).rejects.toThrow(message);
  });

  test('a tensor whose size overflows 2^64, or 2^53, is not believed', async () => {
    const { bytes, fields } = writeGguf(withTensor('F32', 1, 1, 1, 4));
    for (const [value, other] of [
      [2n ** 63n, 2n],
      [2n ** 32n, 2n ** 32n],
      [2n ** 53n, 1n],
      [2n ** 62n, 2n ** 62n],
    ] as const) {
      const dimensions = fields.filter((field) => field.what === 'a dimension of x');
      for (const [index, field] of dimensions.entries())
        bytes.writeBigUInt64LE(index === 1 ? value : index === 2 ? other : 4n, field.offset);
      await expect(readGgufFile(await fileOf(bytes))).rejects.toThrow(
        /tensor x: found shape .*expected dimensions of at least 1 that fit into the file/,
      );
    }
  });
});
