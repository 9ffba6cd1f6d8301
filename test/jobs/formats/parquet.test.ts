import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { checkThrift } from '../../../src/jobs/formats/parquet/checkThrift.js';
import { Dictionary } from '../../../src/jobs/formats/parquet/Dictionary.js';
import { PageBytes } from '../../../src/jobs/formats/parquet/PageBytes.js';
import { RunCursor } from '../../../src/jobs/formats/parquet/RunCursor.js';
import { valueCursor } from '../../../src/jobs/formats/parquet/ValueCursor.js';
import { ParquetFile } from '../../../src/jobs/formats/parquet/ParquetFile.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { collect } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { failureOf, jobsOnFiles } from './support.js';

const { path, job } = jobsOnFiles();
const FOLDER = fileURLToPath(new URL('../../fixtures/parquet/', import.meta.url));
const FIXTURES = readdirSync(FOLDER).filter((name) => name.endsWith('.parquet'));
const RESULTS = ['text', 'finish_reason', 'error_code', 'error_message', 'prompt_tokens', 'completion_tokens'];
let names = 0;

type Values = Readonly<Record<string, unknown>>;

/** All columns of a file's rows, as JSON holds them. */
async function columnsOf(file: string): Promise<Values[]> {
  const rows = await collect(readRows(file, { carryFields: true }));
  return JSON.parse(JSON.stringify(rows.map(({ carry }) => carry))) as Values[];
}

function without(row: Values, ...names: readonly string[]): Values {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name)));
}

async function typesOf(file: string): Promise<Record<string, unknown>> {
  await using opened = await ParquetFile.open(file, file);
  return Object.fromEntries(
    opened.columns.map(({ name, leaves }) => [
      name,
      leaves.map(
        ({
          element: { type, converted_type, logical_type, scale, precision, type_length },
          definition,
          repetition,
        }) => ({
          type,
          converted_type: logical_type?.type === 'INTEGER' ? undefined : converted_type,
          logical_type: logical_type?.type === 'INTEGER' ? undefined : logical_type,
          scale,
          precision,
          type_length,
          definition,
          repetition,
        }),
      ),
    ]),
  );
}

describe('what pyarrow, pandas and DuckDB wrote', () => {
  test.each(FIXTURES)(
    '%s is read as Python reads it, and comes out with its types and values as they were',
    async (name) => {
      const expected = JSON.parse(readFileSync(`${FOLDER}${name.replace('.parquet', '.json')}`, 'utf8')) as Values[];
      expect(await columnsOf(FOLDER + name)).toEqual(expected);
      const output = path(`out-${name}`);
      const summary = await runJob({
        engine: new StubEngine(),
        input: FOLDER + name,
        output,
        columns: { prompt: 'prompt' },
      });
      expect(summary).toMatchObject({
        rows: expected.length,
        done: expected.length,
        failed: expected.filter(({ prompt }) => prompt === null).length,
      });
      const rows = await columnsOf(output);
      expect(rows.map((row) => without(row, ...RESULTS))).toEqual(expected);
      expect(rows.map(({ text }) => text)).toEqual(
        expected.map(({ prompt }) => (typeof prompt === 'string' ? prompt.toUpperCase() : null)),
      );
      if (name !== 'int96.parquet')
        expect(await typesOf(output)).toMatchObject(JSON.parse(JSON.stringify(await typesOf(FOLDER + name))));
    },
  );

  test('lists of structures are conversations, lists of numbers tokens; other columns go into CSV and lines of JSON as text', async () => {
    const rows = await collect(
      readRows(`${FOLDER}snappy.parquet`, { columns: { messages: 'messages', id: 'uint64' } }),
    );
    expect(rows[1]).toEqual({ id: '18446744073709551615', messages: [{ role: 'user', content: 'hello 1' }] });
    expect(rows[6]).toEqual({ id: 7, duplicate: false, messages: [{ role: 'user', content: 'hello 6' }] });
    const [tokens] = await collect(readRows(`${FOLDER}brotli-plain.parquet`, { columns: { tokens: 'list' } }));
    expect(tokens).toMatchObject({ error: { code: 'invalid-row', message: expect.stringContaining('tokens[2]') } });
    const output = path('snappy.csv');
    await runJob({ engine: new StubEngine(), input: `${FOLDER}snappy.parquet`, output, columns: { prompt: 'prompt' } });
    const [first] = parse<Record<string, string>>(readFileSync(output), { columns: true });
    expect(first).toMatchObject({
      decimal38: '1.2500000000',
      nanos: '1970-01-01T00:00:00.000000000',
      list: '[1,2,null]',
      text: 'ROW 0: ÜMLAUT, 世界',
      finish_reason: 'stop',
    });
  });
});

describe('other rows into Parquet', () => {
  test('lines of JSON: columns by what is in them', async () => {
    const lines =
      '{"prompt":"a","n":1,"f":1.5,"b":true,"o":{"z":[1]},"m":1}\n{"prompt":"b","n":2,"f":2,"b":null,"s":"t","m":"x"}\n';
    const { path: output } = await job('in.jsonl', lines, 'out.parquet', { carryFields: true });
    expect((await columnsOf(output)).map((row) => without(row, ...RESULTS.slice(1)))).toEqual([
      { n: 1, f: 1.5, b: true, o: '{"z":[1]}', m: '1', s: null, id: '1', text: 'A' },
      { n: 2, f: 2, b: null, o: null, m: 'x', s: 't', id: '2', text: 'B' },
    ]);
    expect(await typesOf(output)).toMatchObject({
      n: [{ type: 'INT64' }],
      f: [{ type: 'DOUBLE' }],
      b: [{ type: 'BOOLEAN' }],
      o: [{ type: 'BYTE_ARRAY' }],
      completion_tokens: [{ type: 'INT32' }],
    });
  });

  test('lists of texts, numbers and truth values are lists, whole numbers by side of others numbers; the rest is JSON', async () => {
    const lines = [
      { t: ['a', null, ''], i: [1, 9007199254740991], n: [1, 2], b: [true, null], e: [], m: [1, 'a'], o: [{}], s: [1] },
      { t: [], i: null, n: [0.5, null], b: [], e: [null], m: [2], o: [], s: 'x' },
      { t: ['b'], i: [-3], n: [], e: [] },
    ];
    const text = lines.map((line) => `${JSON.stringify({ prompt: 'a', ...line })}\n`).join('');
    const { path: output } = await job('lists.jsonl', text, 'lists.parquet', { carryFields: true });
    expect((await columnsOf(output)).map((row) => without(row, 'id', ...RESULTS))).toEqual([
      { ...lines[0], m: '[1,"a"]', o: '[{}]', s: '[1]' },
      { ...lines[1], m: '[2]', o: '[]' },
      { ...lines[2], b: null, m: null, o: null, s: null },
    ]);
    expect(await typesOf(output)).toMatchObject({
      t: [{ type: 'BYTE_ARRAY', repetition: 1 }],
      i: [{ type: 'INT64', repetition: 1 }],
      n: [{ type: 'DOUBLE', repetition: 1 }],
      b: [{ type: 'BOOLEAN', repetition: 1 }],
      m: [{ type: 'BYTE_ARRAY', repetition: 0 }],
    });
  });

  test('zeros keep their sign, however often they come', async () => {
    const zeros = Array.from({ length: 40 }, (_, at) => (at % 3 === 0 ? -0 : 0));
    const table = parquetWriteBuffer({
      columnData: [
        { name: 'prompt', data: zeros.map(() => 'a'), type: 'STRING' },
        { name: 'n', data: zeros, type: 'DOUBLE', encoding: 'PLAIN' },
      ],
    });
    const { path: output } = await job('zeros.parquet', new Uint8Array(table), 'zeros-out.parquet');
    const rows = await collect(readRows(output, { carryFields: true }));
    expect(rows.map(({ carry }) => carry?.['n'])).toEqual(zeros);
    expect((await typesOf(output))['n']).toMatchObject([{ type: 'DOUBLE' }]);
  });

  test('CSV into Parquet and back: every value as it was', async () => {
    const input = 'id,prompt,note\n7,hello,"as ""it"" was"\n8,"two\nlines",\n';
    const { path: table } = await job('in.csv', input, 'out.parquet');
    const csv = path('back.csv');
    await runJob({
      engine: new StubEngine(),
      input: table,
      output: csv,
      resultColumns: Object.fromEntries(RESULTS.map((name) => [name, `again_${name}`])),
    });
    expect(readFileSync(csv, 'utf8').split('\n')[1]).toBe('7,hello,"as ""it"" was",HELLO,stop,,,1,5,HELLO,stop,,,1,5');
  });

  test('a stream gets a whole file, with the columns of the input', async () => {
    const output = new PassThrough();
    const written = buffer(output);
    await runJob({ engine: new StubEngine(), input: `${FOLDER}duckdb.parquet`, output, outputFormat: 'parquet' });
    output.end();
    writeFileSync(path('stream.parquet'), await written);
    const rows = await columnsOf(path('stream.parquet'));
    expect(rows.map((row) => without(row, ...RESULTS))).toEqual(
      JSON.parse(readFileSync(`${FOLDER}duckdb.json`, 'utf8')),
    );
  });

  test('a format is told by the first bytes where no name says it; rows that failed go into a table of their own', async () => {
    const [input, output, errors] = [path('unnamed'), path('good.parquet'), path('bad.parquet')];
    writeFileSync(input, readFileSync(`${FOLDER}pandas.parquet`));
    expect(await runJob({ engine: new StubEngine(), input, output, errors })).toMatchObject({ rows: 3, failed: 1 });
    expect((await columnsOf(output)).map(({ prompt, text }) => [prompt, text])).toEqual([
      ['a', 'A'],
      ['c', 'C'],
    ]);
    expect(await columnsOf(errors)).toEqual([
      expect.objectContaining({ prompt: null, n: null, when: '2024-06-01T12:30:00.000000', error_code: 'no-prompt' }),
    ]);
  });

  test('values of any kind come back as they were', async () => {
    const column = fc.oneof(
      fc.string(),
      fc.boolean(),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constant(null),
      fc.array(fc.integer(), { maxLength: 3 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.record({ a: column, b: column }), { maxLength: 12 }), async (rows) => {
        names += 1;
        const { path: output } = await job(
          `any-${names}.jsonl`,
          rows.map((row) => `${JSON.stringify({ prompt: 'x', ...row })}\n`).join(''),
          'out.parquet',
          { carryFields: true },
        );
        const back = await columnsOf(output);
        const same = (value: unknown, was: unknown): boolean =>
          value === was ||
          (value ?? null) === (was ?? null) ||
          (Array.isArray(value) && JSON.stringify(value) === JSON.stringify(was)) ||
          value === (typeof was === 'string' ? was : JSON.stringify(was)) ||
          value === Number(was);
        expect(back).toHaveLength(rows.length);
        for (const [at, row] of rows.entries())
          for (const name of ['a', 'b'] as const)
            expect(same(back[at]?.[name], JSON.parse(JSON.stringify(row[name])))).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});

describe('a file that lies', () => {
  const outcome = async (bytes: Uint8Array): Promise<Error | undefined> => {
    const file = path('mutated.parquet');
    writeFileSync(file, bytes);
    return collect(readRows(file, { carryFields: true })).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
  };

  test('cut off anywhere, and changed anywhere: one error that names it, or rows', async () => {
    const originals = ['snappy', 'zstd-small-pages', 'gzip-v2', 'delta'].map((name) =>
      readFileSync(`${FOLDER}${name}.parquet`),
    );
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...originals),
        fc.boolean(),
        fc.double({ min: 0, max: 0.999999, noNaN: true }),
        fc.nat(255),
        fc.boolean(),
        async (original, footer, where, byte, cut) => {
          const length = footer ? original.readUInt32LE(original.length - 8) + 8 : original.length;
          const at = original.length - length + Math.floor(where * length);
          const bytes = cut && byte < 64 ? original.subarray(0, at) : Buffer.from(original);
          if (at < bytes.length) bytes[at] = byte;
          const error = await outcome(bytes);
          if (error === undefined) return;
          refused += 1;
          expect(error).toBeInstanceOf(JobFileError);
          expect(error.message).toContain('mutated.parquet: cannot be read as Parquet: ');
        },
      ),
      { numRuns: 100 },
    );
    expect(refused).toBeGreaterThan(10);
  });

  test.each<[string, (bytes: Buffer) => Buffer, string]>([
    ['nothing', () => Buffer.alloc(0), 'found 0 bytes, expected 12 at least'],
    ['another kind of file', () => Buffer.from('id,prompt\n1,hello\n'), 'it begins with "id,p", expected PAR1'],
    ['cut off', (bytes) => bytes.subarray(0, bytes.length - 20), 'expected PAR1: it may be cut off'],
    [
      'a footer longer than the file',
      (bytes) => (bytes.writeUInt32LE(2 ** 31, bytes.length - 8), bytes),
      'its footer says that it has 2147483648 bytes',
    ],
    [
      'encrypted',
      (bytes) => (bytes.write('PARE', bytes.length - 4, 'latin1'), bytes),
      'it is encrypted, which is not supported',
    ],
  ])('%s', async (_, change, words) => {
    expect((await outcome(change(readFileSync(`${FOLDER}delta.parquet`))))?.message).toContain(words);
  });

  test('text that is no UTF-8, columns of one name, a column that is not there, no prompts, a file that is compressed as a whole', async () => {
    const write = (name: string, columnData: Parameters<typeof parquetWriteBuffer>[0]['columnData']): string => {
      writeFileSync(path(name), Buffer.from(parquetWriteBuffer({ columnData })));
      return path(name);
    };
    const bytes = readFileSync(`${FOLDER}brotli-plain.parquet`);
    const latin = write('latin.parquet', [{ name: 'prompt', data: [Buffer.from([0x66, 0xfc, 0x72])], type: 'STRING' }]);
    const refused = async (input: string, options: object = {}): Promise<string> =>
      (await failureOf(runJob({ engine: new StubEngine(), input, output: path('refused.parquet'), ...options })))
        .message;
    expect(await refused(latin)).toContain(
      'found bytes that are no UTF-8 in a column of text (66fc72…), expected UTF-8',
    );
    expect(await refused(write('none.parquet', [{ name: 'a', data: ['x'], type: 'STRING' }]))).toContain(
      'found the columns "a", expected one called prompt',
    );
    expect(await refused(`${FOLDER}delta.parquet`, { columns: { prompt: 'question' } })).toContain(
      'found no column "question", which `columns` names',
    );
    writeFileSync(path('whole.parquet.gz'), bytes);
    expect(await refused(path('whole.parquet.gz'))).toContain(
      'whole.parquet.gz: found a name of gzip, expected none: parquet is compressed within itself',
    );
    expect((await failureOf(collect(readRows(new Blob([bytes]).stream(), { format: 'parquet' })))).message).toContain(
      'found a stream, expected a regular file',
    );
  });

  test('headers, runs and differences that stand for more than there is are refused before anything is made of them', () => {
    const words = (run: () => unknown): string => {
      try {
        run();
        return 'nothing';
      } catch (error) {
        return (error as Error).message;
      }
    };
    const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);
    expect(words(() => checkThrift(bytes(0x19, 0xf5, 0xff, 0xff, 0xff, 0x0f)))).toContain(
      'a header holds a list of 33554431 values in 0 bytes',
    );
    expect(words(() => checkThrift(new Uint8Array(1000).fill(0x1c)))).toContain(
      'a header is more than 64 structures deep',
    );
    expect(words(() => checkThrift(new Uint8Array(1000).fill(0xff, 1).fill(0x16, 0, 1)))).toContain(
      'a number of more than 10 bytes',
    );
    // A run of 2^30 values in six bytes.
    expect(
      words(() => new RunCursor(new PageBytes(bytes(0xfe, 0xff, 0xff, 0xff, 0x07, 1)), 0, 6, 1, 4).next()),
    ).toContain('a run of 1073741823 values, expected at most 4');
    const cursor = (
      encoding: string,
      page: Uint8Array<ArrayBuffer>,
      type: 'INT32' | 'INT64' | 'BYTE_ARRAY',
      count: number,
    ): unknown =>
      valueCursor(
        new PageBytes(page),
        0,
        encoding,
        count,
        { name: 'x', type },
        new Dictionary(new PageBytes(bytes(7, 0, 0, 0)), 1, { name: 'x', type: 'INT32' }),
      ).next(100);
    expect(words(() => cursor('RLE_DICTIONARY', bytes(1, 8, 1), 'INT32', 4))).toContain(
      'a value is number 1 of a dictionary of 1',
    );
    expect(words(() => cursor('PLAIN', bytes(1, 2, 3), 'INT64', 2 ** 24))).toContain(
      'a page says 16777216 values in 3 bytes',
    );
    expect(words(() => cursor('DELTA_BINARY_PACKED', bytes(0, 0, 1, 2), 'INT32', 5))).toContain(
      'differences in blocks of 0 values in 0 parts',
    );
    // The first value begins with a million bytes of the one before, which there is none.
    const lengths = [128, 1, 4, 1, 0x80, 0x89, 0x7a];
    expect(
      words(() => cursor('DELTA_BYTE_ARRAY', bytes(...lengths, 128, 1, 4, 1, 0, 0, 0, 0, 0, 0), 'BYTE_ARRAY', 1)),
    ).toContain('a value begins with');
  });
});
