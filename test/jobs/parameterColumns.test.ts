import { readFileSync, writeFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { tableFromArrays } from 'apache-arrow';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { readRecordBatches } from '../../src/jobs/arrow/readRecordBatches.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import { readSql } from '../../src/jobs/input/readSql.js';
import type { TakenColumns } from '../../src/jobs/formats/RowFormat.js';
import { recordPath } from '../../src/jobs/output/sidecarFiles.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { RowInput } from '../../src/Row.js';
import { collect, readResults, temporaryFolder } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';
import { failureOf } from './formats/support.js';

const path = temporaryFolder();

/** Columns that are called as parameters, with data of a sensor's, and what names some of them. */
const NAMES = ['id', 'prompt', 'temperature', 'seed', 'samples', 'stop', 'topK', 'maxNewTokens'];
const VALUES = ['s1', 'hot?', 21.5, 7, 3, 'Main St', 4, 100];
const COLUMNS = { temperature: 'temperature', seed: 'seed' };
const LIKE = ['temperature', 'seed', 'samples', 'stop', 'topK', 'maxNewTokens'];

interface Reading {
  readonly columns?: Readonly<Record<string, string>>;
  readonly templated?: boolean;
  readonly ownTexts?: boolean;
  readonly carryFields?: boolean;
  readonly onColumns?: (columns: TakenColumns) => void;
}

const separated = (delimiter: string) => (options: Reading) =>
  readRows(Readable.from([[NAMES, VALUES].map((line) => `${line.join(delimiter)}\n`).join('')]), {
    format: delimiter === '\t' ? 'tsv' : 'csv',
    ...options,
  });

const TABLES: readonly (readonly [string, (options: Reading) => AsyncIterable<RowInput>])[] = [
  ['csv', separated(',')],
  ['tsv', separated('\t')],
  [
    'parquet',
    (options) => {
      writeFileSync(
        path('sensor.parquet'),
        Buffer.from(
          parquetWriteBuffer({
            columnData: NAMES.map((name, at) => ({
              name,
              data: [VALUES[at]],
              type: typeof VALUES[at] === 'string' ? 'STRING' : Number.isInteger(VALUES[at]) ? 'INT32' : 'DOUBLE',
            })),
          }),
        ),
      );
      return readRows(path('sensor.parquet'), options);
    },
  ],
  [
    'sql',
    (options) =>
      readSql(
        `select ${NAMES.map((name, at) => `${typeof VALUES[at] === 'string' ? `'${VALUES[at]}'` : String(VALUES[at])} as "${name}"`).join()}`,
        options,
      ),
  ],
  [
    'Arrow',
    (options) =>
      readRecordBatches(
        tableFromArrays(Object.fromEntries(NAMES.map((name, at) => [name, [VALUES[at]] as never]))).batches as never,
        options,
      ),
  ],
];

test('a value that is nearly a number is gone through once, however long', async () => {
  const [long, blank, digits] = [`${'1'.repeat(2 ** 20)}x`, `${' '.repeat(2 ** 20)}x`, '0.5'];
  const text = `id,prompt,t\n1,a,${long}\n2,b,${blank}\n3,c,${digits}\n`;
  const rows = await collect(readRows(Readable.from([text]), { format: 'csv', columns: { temperature: 't' } }));
  expect(rows.map((row) => ('error' in row ? row.error.code : row.temperature))).toEqual([
    'invalid-row',
    'invalid-row',
    0.5,
  ]);
});

const TEXT_TABLES: readonly (readonly [string, (options: Reading) => AsyncIterable<RowInput>])[] = [
  [
    'csv',
    (options) =>
      readRows(Readable.from(['prompt,labels,completions\np,"[""a"",""b""]","[""c""]"\n']), {
        format: 'csv',
        ...options,
      }),
  ],
  ['sql', (options) => readSql(`select 'p' as prompt, ['a', 'b'] as labels, ['c'] as completions`, options)],
];

describe.each(TABLES)('a column of a table (%s) that is called as a parameter', (_, read) => {
  test('is data, is carried, and is told', async () => {
    const told: TakenColumns[] = [];
    const [row, ...others] = await collect(read({ carryFields: true, onColumns: (columns) => told.push(columns) }));
    expect(others).toEqual([]);
    const { carry, duplicate: __, ...own } = row ?? {};
    expect(own).toEqual({ id: 's1', prompt: 'hot?' });
    expect(Object.keys(carry ?? {})).toEqual(NAMES);
    expect(Number(carry?.['temperature'])).toBe(21.5);
    expect(told).toEqual([{ fields: { id: 'id', prompt: 'prompt' }, likeParameters: LIKE }]);
  });

  test('is a value for a template, and nothing else', async () => {
    const [row] = await collect(read({ templated: true }));
    const { fields, duplicate: __, ...own } = row as { fields: Readonly<Record<string, unknown>>; duplicate?: boolean };
    expect(own).toEqual({ id: 's1' });
    expect([Number(fields['temperature']), fields['stop']]).toEqual([21.5, 'Main St']);
  });

  test('is a parameter where it is named', async () => {
    const told: TakenColumns[] = [];
    const [row] = await collect(read({ columns: COLUMNS, onColumns: (columns) => told.push(columns) }));
    expect(row).toMatchObject({ id: 's1', prompt: 'hot?', temperature: 21.5, seed: 7 });
    expect(row).not.toHaveProperty('samples');
    expect(told[0]).toEqual({
      fields: { id: 'id', prompt: 'prompt', ...COLUMNS },
      likeParameters: LIKE.filter((name) => !(name in COLUMNS)),
    });
  });
});

describe('a field of a line of JSON that is called as a parameter', () => {
  const line = JSON.stringify(Object.fromEntries(NAMES.map((name, at) => [name, VALUES[at]])));
  const rowOf = async (options: Reading): Promise<RowInput | undefined> =>
    (await collect(readRows(Readable.from([line]), options)))[0];

  test('is one, unless the line goes into a template: then it is data, and carried', async () => {
    expect(await rowOf({})).toMatchObject({ prompt: 'hot?', temperature: 21.5, samples: 3 });
    const fields = JSON.parse(line) as object;
    const { id: __, ...carry } = fields as { id: string };
    expect(await rowOf({ templated: true, carryFields: true })).toEqual({ id: 's1', fields, carry });
    const { seed: ___, temperature: ____, ...rest } = carry as unknown as Record<string, unknown>;
    expect(await rowOf({ templated: true, columns: COLUMNS, carryFields: true })).toEqual({
      id: 's1',
      temperature: 21.5,
      seed: 7,
      fields,
      carry: rest,
    });
  });

  test('keeps the digits that a template, or the result, would lose', async () => {
    const [row] = await collect(
      readRows(Readable.from(['{"q":"x","seed":12345678901234567890}']), { templated: true, carryFields: true }),
    );
    expect(row).toMatchObject({
      fields: { seed: '12345678901234567890' },
      carry: { seed: '12345678901234567890' },
    });
  });
});

describe('a job of such a table', () => {
  const input = path('sensor.csv');
  writeFileSync(input, `${NAMES.join()}\n${VALUES.join()}\n`);
  const run = (output: string, more: Partial<RunJobOptions> = {}): Promise<unknown> =>
    runJob({ engine: new StubEngine(), input, output, ...more });

  test("answers each row once, with the run's own parameters, and tells once", async () => {
    const told: TakenColumns[] = [];
    await run(path('sensor-out.csv'), { onColumns: (columns) => told.push(columns) });
    expect(readFileSync(path('sensor-out.csv'), 'utf8').split('\n')[1]).toBe(`${VALUES.join()},HOT?,stop,,,1,4`);
    expect(told).toHaveLength(1);
  });

  test('does not go on with an output that was begun when they were parameters; with others of then it does', async () => {
    const earlier = (output: string): void => {
      const record = JSON.parse(readFileSync(recordPath(output), 'utf8')) as { options: Record<string, unknown> };
      delete record.options['parameters'];
      writeFileSync(recordPath(output), JSON.stringify(record));
    };
    const output = path('sensor.jsonl');
    await run(output);
    await run(output, { resume: true });
    earlier(output);
    expect((await failureOf(run(output, { resume: true }))).message).toContain(
      'which columns are parameters (was those called so, is those that `columns` names)',
    );
    const plain = path('plain.csv');
    writeFileSync(plain, 'id,prompt,text\n1,a,b\n');
    const out = path('plain.jsonl');
    await run(out, { input: plain });
    earlier(out);
    await run(out, { input: plain, resume: true });
    expect(readResults(out)).toHaveLength(1);
  });
});

describe.each(TEXT_TABLES)('columns called labels and completions (%s)', (_, read) => {
  test("are a row's own, unless the run says them: then they are data, and told", async () => {
    const told: TakenColumns[] = [];
    const onColumns = (columns: TakenColumns) => told.push(columns);
    expect(await collect(read({ onColumns }))).toMatchObject([{ prompt: 'p', labels: ['a', 'b'], completions: ['c'] }]);
    const [row] = await collect(read({ ownTexts: false, carryFields: true, onColumns }));
    for (const name of ['labels', 'completions']) {
      expect(row).not.toHaveProperty(name);
      expect(row?.carry).toHaveProperty(name);
    }
    expect(told.map(({ likeParameters }) => likeParameters)).toEqual([[], ['labels', 'completions']]);
    const [named] = await collect(read({ ownTexts: false, columns: { labels: 'labels' } }));
    expect(named).toMatchObject({ labels: ['a', 'b'] });
    expect(named).not.toHaveProperty('completions');
  });

  test('are values for a template', async () => {
    const [row] = await collect(read({ ownTexts: false, templated: true }));
    expect(row).not.toHaveProperty('labels');
    expect(row).toHaveProperty('fields.labels');
  });
});

test('of lines of JSON for a template, likewise; of other lines they are fields', async () => {
  const lines = (options: Reading) =>
    collect(readRows(Readable.from(['{"prompt":"p","labels":["a","b"],"q":1}\n']), { format: 'jsonl', ...options }));
  expect(await lines({ templated: true })).toMatchObject([{ labels: ['a', 'b'] }]);
  for (const columns of [undefined, { prompt: 'q' }]) {
    const [row] = await lines({ templated: true, ownTexts: false, ...(columns && { columns }) });
    expect(row).not.toHaveProperty('labels');
    expect(row).toHaveProperty('fields.labels');
  }
  expect(await lines({ ownTexts: false })).toMatchObject([{ labels: ['a', 'b'] }]);
});

test.each([
  ['classify', 'labels', ['yes', 'no']],
  ['score', 'completions', ['c1']],
] as const)('a job that says what to %s by takes none of a column', async (kind, name, run) => {
  const input = path(`truth-${kind}.csv`);
  writeFileSync(input, `prompt,${name}\np,"[""spam"",""ham""]"\nq,spam\n`);
  const seen: RowInput[] = [];
  const engine = {
    async *generate() {
      yield* [] as never[];
    },
    async *[kind](rows: AsyncIterable<RowInput>) {
      for await (const row of rows) {
        seen.push(row);
        yield { id: row.id ?? 0, index: row.index ?? 0, usage: { promptTokens: 1, completionTokens: 1 }, scores: [] };
      }
    },
  } as unknown as RunJobOptions['engine'];
  const told: TakenColumns[] = [];
  const job = (options: object) => {
    const output = path(`truth-${kind}-${seen.length}.jsonl`);
    return runJob({ engine, input, output, onColumns: (columns) => told.push(columns), [kind]: options });
  };
  await job({ [name]: run });
  expect(seen.map((row) => name in row)).toEqual([false, false]);
  expect(told[0]?.likeParameters).toEqual([name]);
  await job({});
  expect(seen[2]).toMatchObject({ [name]: ['spam', 'ham'] });
  expect(told[1]).toMatchObject({ fields: { [name]: name }, likeParameters: [] });
});
