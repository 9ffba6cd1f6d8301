import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';
import * as arrow from 'apache-arrow';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRecordBatches } from '../../../src/jobs/arrow/readRecordBatches.js';
import { recordBatches, type RecordBatchesOptions } from '../../../src/jobs/arrow/recordBatches.js';
import type { AnyResult } from '../../../src/Results.js';
import type { RowInput } from '../../../src/Row.js';
import { failureOf } from '../formats/support.js';
import { collect } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const ROWS: readonly RowInput[] = [
  { id: 'a', prompt: 'x', carry: { n: 1, big: 9007199254740993n, s: 'one', yes: true, part: 0.5, list: [1] } },
  { id: 'b', prompt: 'y', carry: { n: 2, s: null, yes: false, part: 2 } },
  { id: 'c', error: { code: 'invalid-row', message: 'no' } },
];
const COLUMNS = [
  'n',
  'big',
  's',
  'yes',
  'part',
  'list',
  'id',
  'text',
  'finish_reason',
  'error_code',
  'error_message',
  'prompt_tokens',
  'completion_tokens',
];

async function* rows(): AsyncGenerator<RowInput> {
  yield* ROWS;
}
const results = (): AsyncGenerator<AnyResult> => new StubEngine().generate(rows());

async function tableOf(
  source: AsyncIterable<AnyResult>,
  options: Partial<RecordBatchesOptions<typeof arrow>> = {},
): Promise<arrow.Table> {
  return new arrow.Table(await collect(recordBatches(source, { arrow, ...options })));
}

test('batches have the columns of rows and of results, with their types', async () => {
  const table = await tableOf(results(), { batchRows: 2 });
  expect(table.batches.map(({ numRows }) => numRows)).toEqual([2, 1]);
  expect(table.schema.fields.map(({ name }) => name)).toEqual(COLUMNS);
  expect(table.schema.fields.map(({ type }) => String(type)).slice(0, 6)).toEqual([
    'Int64',
    'Utf8',
    'Utf8',
    'Bool',
    'Float64',
    'List<Int64>',
  ]);
  expect(table.toArray().map((row: { toJSON(): object } | null) => row?.toJSON())).toMatchObject([
    {
      n: 1n,
      big: '9007199254740993',
      s: 'one',
      yes: true,
      part: 0.5,
      id: 'a',
      text: 'X',
      finish_reason: 'stop',
      error_code: null,
      prompt_tokens: 1,
    },
    { n: 2n, s: null, yes: false, part: 2, id: 'b', text: 'Y' },
    { n: null, id: 'c', text: null, error_code: 'invalid-row', error_message: 'no' },
  ]);
  expect(Array.from(table.getChild('list')?.get(0) as Iterable<bigint>)).toEqual([1n]);
  expect(table.getChild('list')?.get(1)).toBeNull();
});

test('a stream of them is read again, by ours too', async () => {
  const bytes = await buffer(
    Readable.from(
      await arrow.RecordBatchStreamWriter.writeAll(
        recordBatches(results(), { arrow, resultColumns: { text: 'answer' } }),
      ),
    ),
  );
  expect(arrow.tableFromIPC(bytes).getChild('answer')?.toJSON()).toEqual(['X', 'Y', null]);
  const again = await collect(
    readRecordBatches(arrow.RecordBatchReader.from(bytes), { columns: { prompt: 'answer' } }),
  );
  expect(again).toMatchObject([
    { id: 'a', prompt: 'X' },
    { id: 'b', prompt: 'Y' },
    { id: 'c', error: { code: 'no-prompt' } },
  ]);
});

test('embeddings are lists of float32, and answers to a schema have a column each', async () => {
  const common = { index: 0, usage: { promptTokens: 1, completionTokens: 0 } };
  const embedded = await tableOf(
    from([
      { ...common, id: 1, embedding: [0.5, 0.1] },
      { ...common, id: 2, error: { code: 'too-long', message: 'no' } },
    ]),
    { task: 'embed' },
  );
  expect(String(embedded.getChild('embedding')?.type)).toBe('List<Float32>');
  expect(embedded.getChild('embedding')?.toJSON()).toMatchObject([{ length: 2 }, null]);
  expect(Array.from(embedded.getChild('embedding')?.get(0) as Iterable<number>)).toEqual([0.5, Math.fround(0.1)]);
  const responseFormat = {
    type: 'json_schema',
    schema: {
      type: 'object',
      properties: { age: { type: 'integer' }, tags: { type: 'array', items: { type: 'string' } } },
    },
  } as const;
  const value = { age: 9, tags: ['a', 'b'] };
  const held = await tableOf(from([{ ...common, id: 1, text: JSON.stringify(value), value }]), { responseFormat });
  expect(held.getChild('age')?.toJSON()).toEqual([9n]);
  expect(String(held.getChild('tags')?.type)).toBe('List<Utf8>');
  expect(Array.from(held.getChild('tags')?.get(0) as Iterable<string>)).toEqual(['a', 'b']);
});

test('no result is a batch of the columns alone; a reader that stops stops the source', async () => {
  const [only] = await collect(recordBatches([], { arrow }));
  expect([only?.numRows, only?.schema.fields.length]).toEqual([0, 7]);
  let ended = false;
  const endless = async function* (): AsyncGenerator<AnyResult> {
    try {
      for (;;) yield* results();
    } finally {
      ended = true;
    }
  };
  for await (const _ of recordBatches(endless(), { arrow })) break;
  expect(ended).toBe(true);
});

test('wrong arguments and rows that do not fit', async () => {
  expect(() => recordBatches(7 as never, { arrow })).toThrow(UsageError);
  expect(() => recordBatches([], {} as never)).toThrow(
    'arrow: found undefined, without RecordBatch, expected the package apache-arrow',
  );
  expect(() => recordBatches([], { arrow: { ...arrow, makeData: undefined } as never })).toThrow('without makeData');
  expect(() => recordBatches([], { arrow, batchRows: 0 })).toThrow('batchRows');
  expect(() => recordBatches([], { arrow, format: 'csv' } as never)).toThrow('format');
  const common = {
    index: 0,
    text: 'x',
    tokens: [],
    finishReason: 'stop' as const,
    usage: { promptTokens: 1, completionTokens: 0 },
  };
  const other = collect(
    recordBatches(
      from([
        { ...common, id: 1, carry: { n: 1 } },
        { ...common, id: 2, carry: { n: 'two' } },
      ]),
      { arrow, batchRows: 1 },
    ),
  );
  expect((await failureOf(other)).message).toBe('output: column n: found two, expected values as in the rows before');
  const more = collect(
    recordBatches(
      from([
        { ...common, id: 1, carry: { n: 1 } },
        { ...common, id: 2, carry: { m: 1 } },
      ]),
      { arrow, batchRows: 1 },
    ),
  );
  expect((await failureOf(more)).message).toContain(
    'found a row with the field "m", expected the fields of the first row, "n"',
  );
  const labels = collect(
    recordBatches(
      from([
        { ...common, id: 1 },
        { id: 2, index: 1, label: 'x', usage: common.usage },
      ]),
      { arrow },
    ),
  );
  expect((await failureOf(labels)).message).toBe(
    'task: found a result of classify among those of generate, expected all of one task',
  );
});

async function* from(list: readonly AnyResult[]): AsyncGenerator<AnyResult> {
  yield* list;
}
