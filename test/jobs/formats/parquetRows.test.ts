import { readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { PARQUET_LIMITS } from '../../../src/model/files/limits.js';
import { collect } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { jobsOnFiles } from './support.js';

const { path } = jobsOnFiles();
const FOLDER = fileURLToPath(new URL('../../fixtures/parquet/', import.meta.url));

/** What `work` gives with another limit. */
async function limited<T>(
  limits: Partial<Record<keyof typeof PARQUET_LIMITS, number>>,
  work: () => Promise<T>,
): Promise<T> {
  const before = { ...PARQUET_LIMITS };
  Object.assign(PARQUET_LIMITS, limits);
  try {
    return await work();
  } finally {
    Object.assign(PARQUET_LIMITS, before);
  }
}

test.each(readdirSync(FOLDER).filter((name) => name.endsWith('.parquet')))(
  '%s is the same where no page may be held for longer than a row, and rows are made one by one',
  async (name) => {
    const read = (): Promise<unknown> => collect(readRows(FOLDER + name, { carryFields: true }));
    expect(await limited({ heldBytes: 0, batchBytes: 0 }, read)).toEqual(await read());
  },
);

/** Three rows, of which the middle one has values of 40 KB in three columns. */
function threeRows(): string {
  const long = 'x'.repeat(40_000);
  const column = (name: string) => ({ name, data: ['a', long, 'c'], type: 'STRING' as const });
  const file = path('three.parquet');
  const bytes = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: ['1', '2', '3'], type: 'STRING' },
      { name: 'prompt', data: ['one', 'two', 'three'], type: 'STRING' },
      ...['p', 'q', 'r'].map(column),
    ],
    codec: 'UNCOMPRESSED',
  });
  writeFileSync(file, new Uint8Array(bytes));
  return file;
}

test('a row whose values have no room together is an error, and the others are what they were', async () => {
  const input = threeRows();
  const rows = await limited({ rowBytes: 100_000 }, () => collect(readRows(input, { carryFields: true })));
  expect(rows).toMatchObject([
    { id: '1', prompt: 'one', carry: { p: 'a', r: 'a' } },
    {
      id: '2',
      error: {
        code: 'limit',
        message:
          'row 2: found values of more than 100000 bytes together, or a list of more than 262144, expected at most so many; it is left out',
      },
    },
    { id: '3', prompt: 'three', carry: { p: 'c', r: 'c' } },
  ]);
  // Where the columns are not asked for there is room.
  expect(await limited({ rowBytes: 100_000 }, () => collect(readRows(input)))).toMatchObject([
    { prompt: 'one' },
    { prompt: 'two' },
    { prompt: 'three' },
  ]);
});

test.each(['out.parquet', 'out.csv'])(
  'such a row is told before it is computed, where %s carries its columns',
  async (name) => {
    const [input, output] = [threeRows(), path(name)];
    const engine = new StubEngine();
    const summary = await limited({ rowBytes: 100_000 }, () => runJob({ engine, input, output }));
    expect(summary).toMatchObject({ rows: 3, done: 3, failed: 1 });
    const written = await limited({ rowBytes: 100_000 }, () => collect(readRows(output, { carryFields: true })));
    expect(
      written.map(({ carry }) => [carry?.['id'], carry?.['text'] || undefined, carry?.['error_code'] || undefined]),
    ).toEqual([
      ['1', 'ONE', undefined],
      ['2', undefined, 'limit'],
      ['3', 'THREE', undefined],
    ]);
  },
);

test('a moment that the output cannot hold is told when its row is read, and costs no other row its place', async () => {
  const [input, output] = [`${FOLDER}refused/int96-far.parquet`, path('far.parquet')];
  const summary = await runJob({ engine: new StubEngine(), input, output });
  expect(summary).toMatchObject({ rows: 3, done: 3, failed: 1 });
  const written = await collect(readRows(output, { carryFields: true }));
  expect(written.map(({ carry }) => [carry?.['at'], carry?.['text'], carry?.['error_code']])).toEqual([
    ['2001-02-03T04:05:06.000000000', 'NEAR', null],
    [null, null, 'invalid-row'],
    [null, 'NONE', null],
  ]);
  expect(written[1]?.carry?.['error_message']).toContain(
    'column at: found a moment that nanoseconds in 64 bits do not reach',
  );
  // Text has a place for it.
  const lines = path('far.csv');
  expect(await runJob({ engine: new StubEngine(), input, output: lines })).toMatchObject({ failed: 0 });
  const [, far] = await collect(readRows(lines, { carryFields: true }));
  expect(far?.carry?.['at']).toBe('9999-12-31T00:00:00.000000000');
});

test('a list of more values than there may be is a row with an error, and the others are what they were', async () => {
  const file = path('lists.parquet');
  const data = [[1, 2], Array.from({ length: 60 }, (_, at) => at), [3]];
  writeFileSync(
    file,
    new Uint8Array(
      parquetWriteBuffer({
        columnData: [{ name: 'tokens', data }],
        schema: [
          { name: 'root', num_children: 1 },
          { name: 'tokens', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
          { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
          { name: 'element', type: 'INT32', repetition_type: 'OPTIONAL' },
        ],
      }),
    ),
  );
  expect(await limited({ listValues: 50 }, () => collect(readRows(file)))).toMatchObject([
    { tokens: [1, 2] },
    { id: 2, error: { code: 'limit' } },
    { tokens: [3] },
  ]);
  expect(await collect(readRows(file))).toMatchObject(data.map((tokens) => ({ tokens })));
});

test('a long text is read piece by piece: characters that two pieces share are whole, and bytes that are none are told', async () => {
  const text = `a${'é漢😀'.repeat(300_000)}`;
  const file = path('long.parquet');
  const write = (bytes: Uint8Array): void =>
    writeFileSync(
      file,
      new Uint8Array(
        parquetWriteBuffer({
          columnData: [{ name: 'prompt', data: [bytes] }],
          schema: [
            { name: 'root', num_children: 1 },
            { name: 'prompt', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
          ],
          codec: 'UNCOMPRESSED',
        }),
      ),
    );
  write(Buffer.from(text));
  const [row] = await collect(readRows(file, { carryFields: true }));
  expect((row as { readonly prompt: string }).prompt === text).toBe(true);
  expect(row?.carry?.['prompt'] === text).toBe(true);
  write(Buffer.concat([Buffer.from(text), Buffer.from([0xe9])]));
  await expect(collect(readRows(file))).rejects.toThrow('found bytes that are no UTF-8');
});
