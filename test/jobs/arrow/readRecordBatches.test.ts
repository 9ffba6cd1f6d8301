import { createReadStream, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import * as arrow from 'apache-arrow';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRecordBatches } from '../../../src/jobs/arrow/readRecordBatches.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { failureOf } from '../formats/support.js';
import { collect, temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const FILE = fileURLToPath(new URL('../../fixtures/arrow/everything.arrows', import.meta.url));
const expected = JSON.parse(readFileSync(FILE.replace('.arrows', '.json'), 'utf8')) as Record<string, unknown>[];
const batches = (): Promise<arrow.RecordBatchReader> => arrow.RecordBatchReader.from(createReadStream(FILE));

test('what pyarrow wrote is read as Python reads it, in batches', async () => {
  const rows = await collect(
    readRecordBatches(await batches(), { carryFields: true, columns: { prompt: 'prompt', messages: 'same' } }),
  );
  expect(JSON.parse(JSON.stringify(rows.map(({ carry }) => carry)))).toEqual(expected);
});

test('rows are as those of Parquet: prompts, conversations, tokens, ids of 64 bits, values for a template', async () => {
  const columns = { prompt: 'prompt', id: 'uint64', messages: 'no' };
  const [first] = await collect(
    readRecordBatches(await batches(), { columns: { messages: 'messages', id: 'required' } }),
  );
  expect(first).toEqual({ id: 0, messages: [{ role: 'user', content: 'hello 0' }] });
  expect((await failureOf(collect(readRecordBatches(await batches(), { columns })))).message).toContain(
    'found no column "no", which `columns` names',
  );
  const [templated] = await collect(readRecordBatches(await batches(), { templated: true }));
  expect(templated).toMatchObject({ id: 1, fields: { flag: true, words: 'one', decimal9: '1.25' } });
  const slice = arrow.tableFromArrays({ tokens: [[1, 2], [3]] });
  expect(await collect(readRecordBatches(slice.batches))).toMatchObject([{ tokens: [1, 2] }, { tokens: [3] }]);
});

test('slices of batches are read from where they begin', async () => {
  const table = arrow.tableFromIPC(readFileSync(FILE)).slice(7, 31);
  const rows = await collect(
    readRecordBatches(table.batches, { carryFields: true, columns: { prompt: 'prompt', messages: 'same' } }),
  );
  expect(JSON.parse(JSON.stringify(rows.map(({ carry }) => carry)))).toEqual(expected.slice(7, 31));
});

test('a job takes them', async () => {
  const output = path('out.parquet');
  const { done } = await runJob({
    engine: new StubEngine(),
    input: readRecordBatches(await batches(), { carryFields: true }),
    output,
    resume: true,
  });
  expect(done).toBe(expected.length);
});

test('wrong arguments are refused at once, wrong batches when they come', async () => {
  expect(() => readRecordBatches(7 as never)).toThrow(UsageError);
  expect(() => readRecordBatches([], { delimiter: ',' } as object)).toThrow('delimiter');
  const [one, other] = [arrow.tableFromArrays({ prompt: ['a'] }), arrow.tableFromArrays({ prompt: ['b'], more: [1] })];
  const failure = async (list: readonly unknown[]): Promise<Error> =>
    failureOf(collect(readRecordBatches(list as never)));
  expect((await failure([...one.batches, ...other.batches])).message).toBe(
    'record batches: found a batch with the columns "prompt", "more", expected those of the first one, "prompt"',
  );
  expect((await failure([{ prompt: 'a' }])).message).toContain('expected a record batch of apache-arrow');
  expect((await failure(arrow.tableFromArrays({ words: ['a'] }).batches)).message).toContain(
    'expected one called prompt, messages or tokens',
  );
  const interval = new arrow.Table({
    prompt: arrow.vectorFromArray(['a']),
    span: arrow.vectorFromArray([new Int32Array([1, 2])], new arrow.IntervalDayTime()),
  }).batches;
  expect(await failure(interval)).toBeInstanceOf(JobFileError);
  expect((await failure(interval)).message).toContain('row 1, column span: found values of the type Interval');
});

test('others have their turn while the rows of one large batch are read', async () => {
  const length = 200_000;
  const column = { type: { typeId: 5 }, length, data: [], get: (row: number) => `p${row}`, getChildAt: () => null };
  const batch = { numRows: length, schema: { fields: [{ name: 'prompt' }] }, getChildAt: () => column };
  let turns = 0;
  let reads = true;
  const count = (): void => {
    turns += 1;
    if (reads) setImmediate(count);
  };
  setImmediate(count);
  let rows = 0;
  for await (const row of readRecordBatches([batch])) rows += 'prompt' in row ? 1 : 0;
  reads = false;
  expect(rows).toBe(length);
  expect(turns).toBeGreaterThan(1);
});
