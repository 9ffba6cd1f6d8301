import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { expect, test } from '@jest/globals';
import * as arrow from 'apache-arrow';
import { parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet';
import { recordBatches } from '../../../src/jobs/arrow/recordBatches.js';
import { encodeResults } from '../../../src/jobs/output/encodeResults.js';
import type { AnyResult } from '../../../src/Results.js';

const USAGE = { promptTokens: 1, completionTokens: 0 };
const when = new Date('2026-11-29T12:34:56.789Z');
const RESULTS: readonly AnyResult[] = [
  {
    id: 1,
    index: 0,
    label: 'yes',
    probability: 0.75,
    probabilities: { yes: 0.75, 'né,"': 0.25 },
    usage: USAGE,
    carry: { when, mixed: when },
  },
  {
    id: 2,
    index: 1,
    usage: USAGE,
    error: { code: 'no-prompt', message: 'none' },
    carry: { when: null, mixed: 'text' },
  },
  {
    id: 3,
    index: 2,
    label: 'no',
    probability: 1,
    probabilities: {},
    usage: USAGE,
    carry: { when: new Date(-1), mixed: null },
  },
];

const parquet = async (): Promise<ArrayBuffer> => {
  const bytes = await buffer(Readable.from(encodeResults(RESULTS, { format: 'parquet' })));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
};

test('Parquet has probabilities as a map, and dates as moments', async () => {
  const file = await parquet();
  const { children } = parquetSchema(parquetMetadata(file));
  const typeOf = (name: string): unknown => children.find(({ element }) => element.name === name)?.element.logical_type;
  expect(typeOf('when')).toEqual({ type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' });
  expect(typeOf('probabilities')).toMatchObject({ type: 'MAP' });
  expect(typeOf('mixed')).toMatchObject({ type: 'STRING' });
  const rows = await parquetReadObjects({ file });
  expect(rows.map(({ when: date, mixed, probabilities }) => [date, mixed, probabilities])).toEqual([
    [when, when.toISOString(), { yes: 0.75, 'né,"': 0.25 }],
    [null, 'text', undefined],
    [new Date(-1), null, {}],
  ]);
});

test('Arrow has them likewise', async () => {
  const batches: unknown[] = [];
  for await (const batch of recordBatches(RESULTS, { arrow })) batches.push(batch);
  const table = new arrow.Table(batches as arrow.RecordBatch[]);
  const again = arrow.tableFromIPC(arrow.tableToIPC(table));
  const typeOf = (name: string): string => String(again.schema.fields.find((field) => field.name === name)?.type);
  expect(typeOf('when')).toBe('Timestamp<MILLISECOND, UTC>');
  expect(typeOf('probabilities')).toMatch(/^Map/);
  expect([...(again.getChild('when') ?? [])].map(Number)).toEqual([when.getTime(), 0, -1]);
  const maps = [...(again.getChild('probabilities') ?? [])] as ({ toJSON(): object } | null)[];
  expect(maps.map((map) => map && map.toJSON())).toEqual([{ yes: 0.75, 'né,"': 0.25 }, null, {}]);
});
