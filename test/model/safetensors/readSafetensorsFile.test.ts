import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readSafetensorsFile } from '../../../src/model/safetensors/readSafetensorsFile.js';
import { liveHeapBytes } from '../../support/liveHeapBytes.js';
import { makeFolder } from '../support/folders.js';
import { assemble, headerText, writeSafetensors } from '../support/SafetensorsWriter.js';
import type { SafetensorsEntry } from '../support/SafetensorsWriter.js';

const read = async (bytes: Uint8Array): ReturnType<typeof readSafetensorsFile> =>
  readSafetensorsFile(join(await makeFolder({ 'model.safetensors': bytes }), 'model.safetensors'), 3);
const readHeader = (header: string, dataBytes = 16): ReturnType<typeof readSafetensorsFile> =>
  read(assemble(header, dataBytes));
const readEntries = (...entries: SafetensorsEntry[]): ReturnType<typeof readSafetensorsFile> =>
  readHeader(headerText(entries));
const entry = (dtype: string, shape: unknown, begin: unknown, end: unknown): unknown => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

describe('a safetensors file that is in order', () => {
  test('gives type, shape and place of its tensors, in the order of their bytes', async () => {
    const bytes = writeSafetensors(
      [
        { name: 'a', dtype: 'F32', shape: [2, 3] },
        { name: 'b', dtype: 'F16', shape: [4] },
        { name: 'c', dtype: 'BF16', shape: [] },
      ],
      { format: 'pt', note: 'a "quoted" text' },
    );
    const start = bytes.length - 24 - 8 - 2;
    expect((await read(bytes)).tensors).toEqual([
      { name: 'a', type: 'F32', shape: [2, 3], file: 3, offset: start, bytes: 24 },
      { name: 'b', type: 'F16', shape: [4], file: 3, offset: start + 24, bytes: 8 },
      { name: 'c', type: 'BF16', shape: [], file: 3, offset: start + 32, bytes: 2 },
    ]);
  });

  test('entries in any order, blanks, escapes, empty tensors, nothing at all', async () => {
    const entries: SafetensorsEntry[] = [
      ['z', entry('F32', [2], 8, 16)],
      ['é"\n', entry('F32', [2], 0, 8)],
      ['none', entry('F32', [0, 5], 8, 8)],
    ];
    expect((await readEntries(...entries)).tensors.map(({ name }) => name)).toEqual(['é"\n', 'none', 'z']);
    expect(
      (await readHeader(' { "a" :\t{ "shape" : [ 4 ] , "data_offsets":[0 ,16],\n"dtype":"F32" } }\n')).tensors,
    ).toHaveLength(1);
    expect((await readHeader('{"\\u0061":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}')).tensors[0]?.name).toBe(
      'a',
    );
    expect((await readHeader('{}', 0)).tensors).toEqual([]);
  });

  test('buffers of other types are left out, their names known', async () => {
    const file = await readEntries(
      ['h.attn.bias', entry('U8', [4], 0, 4)],
      ['h.mask', entry('BOOL', [2], 4, 6)],
      ['position_ids', entry('I64', [0], 6, 6)],
      ['w.weight', entry('BF16', [5], 6, 16)],
    );
    expect(file.tensors.map(({ name }) => name)).toEqual(['w.weight']);
    expect([...file.names].sort()).toEqual(['h.attn.bias', 'h.mask', 'position_ids', 'w.weight']);
  });
});

describe('a safetensors file that is refused', () => {
  test.each([
    ['F64', 'x.weight', 16],
    ['F8_E5M2', 'x.weight', 16],
    ['I8', 'x.weight', 16],
    ['I32', 'x.qweight', 16],
    ['F64', 'x.bias', 16],
    ['U8', 'weight', 16],
    ['F4', 'x.scale', 8],
  ])('a weight of type %s (%s)', async (dtype, name, bytes) => {
    const bits = Number(/\d+/.exec(dtype));
    await expect(readHeader(headerText([[name, entry(dtype, [(bytes * 8) / bits], 0, bytes)]]), bytes)).rejects.toThrow(
      `tensor ${name}: found dtype ${dtype}, expected one of F32, F16, BF16`,
    );
  });

  const cases: readonly (readonly [what: string, entries: readonly SafetensorsEntry[], message: RegExp])[] = [
    ['a type of the future', [['a', entry('F2', [4], 0, 16)]], /tensor a: found the unknown dtype F2/],
    [
      'a name twice',
      [
        ['a', entry('F32', [2], 0, 8)],
        ['a', entry('F32', [2], 8, 16)],
      ],
      /tensor a: found the name a second time/,
    ],
    [
      'too few bytes',
      [['a', entry('F32', [4], 0, 15)]],
      /data_offsets \[0, 15\], 15 bytes, expected 16 bytes for shape \[4\] of F32/,
    ],
    ['bytes backwards', [['a', entry('F32', [4], 16, 0)]], /-16 bytes/],
    [
      'an overlap',
      [
        ['a', entry('F32', [3], 0, 12)],
        ['b', entry('F32', [2], 8, 16)],
      ],
      /tensor b: found an overlap with the tensor before it/,
    ],
    [
      'a hole',
      [
        ['a', entry('F32', [1], 0, 4)],
        ['b', entry('F32', [2], 8, 16)],
      ],
      /tensor b: found a hole before it/,
    ],
    [
      'bytes past the end',
      [['a', entry('F32', [5], 0, 20)]],
      /tensor a: found bytes \d+ to \d+, expected bytes inside the file/,
    ],
    [
      'bytes that belong to no tensor',
      [['a', entry('F32', [3], 0, 12)]],
      /file: found \d+ bytes, expected \d+, where the last tensor ends/,
    ],
    ['a product beyond 2^53', [['a', entry('F32', [2 ** 40, 2 ** 40], 0, 16)]], /expected a whole number of bytes/],
    [
      'a product that wraps round 2^64',
      [['a', entry('F32', [2 ** 32, 2 ** 32, 4], 0, 16)]],
      /expected a whole number of bytes/,
    ],
    ['a size of 2^53', [['a', entry('U8', [2 ** 53], 0, 16)]], /a whole number from 0 to 2\^53 - 1/],
    ['a negative size', [['a', entry('F32', [-4], 0, 16)]], /a whole number from 0/],
    ['a fraction', [['a', entry('F32', [4.5], 0, 16)]], /expected "]"|expected \]/],
    ['nine dimensions', [['a', entry('F32', [1, 1, 1, 1, 1, 1, 1, 1, 4], 0, 16)]], /a list of more than 8 numbers/],
    [
      'three offsets',
      [['a', { dtype: 'F32', shape: [4], data_offsets: [0, 16, 16] }]],
      /a list of more than 2 numbers/,
    ],
    ['one offset', [['a', { dtype: 'F32', shape: [4], data_offsets: [16] }]], /lacks some of its keys/],
    ['no dtype', [['a', { shape: [4], data_offsets: [0, 16] }]], /lacks some of its keys/],
    ['another key', [['a', { dtype: 'F32', shape: [4], data_offsets: [0, 16], device: 'cpu' }]], /the key device/],
    ['metadata that is no text', [['__metadata__', { a: 1 }]], /expected " at this place/],
    ['a name that is too long', [['x'.repeat(5000), entry('F32', [4], 0, 16)]], /a string of at most 4096 bytes/],
  ];
  test.each(cases)('%s', async (_, entries, message) => {
    await expect(readEntries(...entries)).rejects.toThrow(message);
    await expect(readEntries(...entries)).rejects.toMatchObject({
      code: 'model-file',
      file: expect.stringContaining('model.safetensors'),
    });
  });

  test.each([
    '',
    '[]',
    'null',
    '{',
    '{"a"',
    '{"a":{}}',
    '{"a":1}',
    '{} {}',
    '{"a":{"dtype":"F32","dtype":"F32"}}',
    '{"a\\q":{}}',
    '{"a\n":{}}',
    '{"a":{"dtype":"F32","shape":[04],"data_offsets":[0,16]}}',
  ])('the header %j', async (header) => {
    await expect(readHeader(header)).rejects.toMatchObject({ code: 'model-file' });
  });

  test('a length beyond the file or beyond 100 MB, bytes that are no text, a file of 7 bytes', async () => {
    const bytes = writeSafetensors([{ name: 'a', dtype: 'F32', shape: [4] }]);
    for (const length of [BigInt(bytes.length - 7), 100_000_001n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n]) {
      const broken = Buffer.from(bytes);
      broken.writeBigUInt64LE(length);
      await expect(read(broken)).rejects.toThrow(
        `header length: found ${length} bytes, expected at most ${bytes.length - 8}`,
      );
    }
    bytes[9] = 0xff;
    await expect(read(bytes)).rejects.toThrow(/header: found bytes that are no UTF-8/);
    await expect(read(bytes.subarray(0, 7))).rejects.toThrow(/found 7 bytes, expected at least 8/);
  });

  test('a header of many small values takes no more memory than its file allows', async () => {
    const before = liveHeapBytes();
    await expect(readHeader(`{"a":[${'{},'.repeat(3_000_000)}{}]}`)).rejects.toMatchObject({ code: 'model-file' });
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20 * 2 ** 20);
  });
});
