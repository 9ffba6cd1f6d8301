import { execFile } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { copiedInParts, copyInParts } from '../../../src/jobs/formats/parquet/copyInParts.js';
import { decompressPage } from '../../../src/jobs/formats/parquet/decompressPage.js';
import { isForeign, PageBytes } from '../../../src/jobs/formats/parquet/PageBytes.js';
import { valueCursor } from '../../../src/jobs/formats/parquet/ValueCursor.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { built } from '../support/built.js';
import { collect, temporaryFolder } from '../support/files.js';
import { writeFileSync } from 'node:fs';

const path = temporaryFolder();
const MIB = 2 ** 20;
const ELEMENT = { name: 'text', type: 'BYTE_ARRAY' } as const;

const drawn = (length: number, seed: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, at) => (at * seed + (at >> 7)) & 0x7f);

/** Values as they stand in a page, each after its length. */
function pageOf(...values: readonly Uint8Array[]): PageBytes {
  const bytes = new Uint8Array(values.reduce((sum, { length }) => sum + 4 + length, 0));
  let at = 0;
  for (const value of values) {
    new DataView(bytes.buffer).setUint32(at, value.length, true);
    bytes.set(value, at + 4);
    at += 4 + value.length;
  }
  return new PageBytes(bytes);
}

const CODECS = [
  ['GZIP', gzipSync],
  ['BROTLI', brotliCompressSync],
] as const;

test.each(CODECS)(
  'a large page of %s is put together as it comes, in memory that is its own',
  async (codec, compress) => {
    const bytes = drawn(5 * MIB + 7, 31);
    const page = await decompressPage(new Uint8Array(compress(bytes)), bytes.length, codec);
    expect(Buffer.from(page).equals(bytes)).toBe(true);
    expect(page.buffer.byteLength).toBe(bytes.length);
  },
);

test.each(CODECS)('one of %s that has more, or less, than it says is an error', async (codec, compress) => {
  const compressed = compress(drawn(5 * MIB, 31));
  const read = (length: number): Promise<unknown> => decompressPage(new Uint8Array(compressed), length, codec);
  await expect(read(3 * MIB)).rejects.toThrow(`a page has more than the ${3 * MIB} bytes`);
  await expect(read(6 * MIB)).rejects.toThrow(`a page has ${5 * MIB} bytes decompressed, expected ${6 * MIB}`);
});

// A hook of the process's own may be what finds packages.
test.each(['a thread', 'itself, where the thread does not find the module'])(
  'as the package has it, it has a large page of SNAPPY decompressed by %s',
  async (by) => {
    const script = `
      import { createRequire, syncBuiltinESMExports } from 'node:module';
      const threads = createRequire('file:///')('node:worker_threads');
      const { Worker } = threads;
      let started = 0;
      threads.Worker = class extends Worker {
        constructor(code, options) {
          started += 1;
          const module = ${by === 'a thread' ? 'options.workerData.module' : "'file:///none.js'"};
          super(code, { ...options, workerData: { ...options.workerData, module } });
        }
      };
      syncBuiltinESMExports();
      const { decompressPage } = await import(${JSON.stringify(pathToFileURL(built('jobs/formats/parquet/decompressPage.js')).href)});
      const page = Uint8Array.from({ length: 3 * 2 ** 20 }, (_, at) => (at * 31) & 127);
      // Its length, and a literal of as many bytes.
      const bytes = Uint8Array.from([0x80, 0x80, 0xc0, 0x01, 0xfc, 0xff, 0xff, 0x2f, 0x00, ...page]);
      const read = await decompressPage(bytes, page.length, 'SNAPPY');
      console.log(started, Buffer.from(read).equals(page));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    expect(stdout).toBe('1 true\n');
  },
);

test('a long value is a view of its page, a short one is not', () => {
  const [long, short] = [drawn(3 * MIB, 5), drawn(100, 7)];
  const page = pageOf(long, short);
  const cursor = valueCursor(page, 0, 'PLAIN', 2, ELEMENT, undefined);
  const [first, second] = [cursor.next(Infinity), cursor.next(Infinity)] as readonly Uint8Array[];
  expect(Buffer.from(first ?? []).equals(long)).toBe(true);
  expect(first?.buffer).toBe(page.bytes.buffer);
  expect(second).toEqual(short);
  expect(second?.buffer).not.toBe(page.bytes.buffer);
});

test('of those views the ones that keep much else in memory are told, and copied in parts', () => {
  const bytes = drawn(20 * MIB, 3);
  const value = bytes.subarray(MIB, 10 * MIB);
  expect([isForeign(value), isForeign(bytes.subarray(MIB)), isForeign(bytes.subarray(0, 100))]).toEqual([
    true,
    false,
    false,
  ]);
  const work = copiedInParts(value);
  let parts = 1;
  let step = work.next();
  for (; step.done !== true; step = work.next()) parts += 1;
  expect(parts).toBe(3);
  expect(Buffer.from(step.value).equals(value)).toBe(true);
  expect(step.value.buffer.byteLength).toBe(value.length);
  const into = new Uint8Array(7);
  expect([...copyInParts(new Uint8Array([1, 2]), into, 3)]).toEqual([]);
  expect([...into]).toEqual([0, 0, 0, 1, 2, 0, 0]);
});

test('long texts of one page come as they are, also where nulls are between them', async () => {
  const texts = [3, 1.5, 2.5].map((mib, at) => 'aé漢 '.repeat((mib * MIB) / 8) + String(at));
  const data = [texts[0], null, 'short', texts[1], texts[2], null];
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: data.map((_, at) => at), type: 'INT32' },
      { name: 'prompt', data: data.map(() => 'p'), type: 'STRING' },
      { name: 'note', data, type: 'STRING' },
    ],
  });
  writeFileSync(path('long.parquet'), new Uint8Array(buffer));
  const rows = await collect(readRows(path('long.parquet'), { carryFields: true }));
  expect(rows.map(({ carry }) => carry?.['note'] === data[carry?.['id'] as number])).toEqual(data.map(() => true));
});
