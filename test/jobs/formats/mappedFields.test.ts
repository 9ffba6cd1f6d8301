import { Readable } from 'node:stream';
import { expect, test } from '@jest/globals';
import { readRows, type ReadRowsOptions } from '../../../src/jobs/input/readRows.js';
import { collect } from '../support/files.js';

const LINE =
  '{"id":7,"nr":3,"question":"q","tokens":57,"messages":"m","seed":5,"prompt":"old","other":1,"stop":"s","tools":null}';
const ROW = JSON.parse(LINE) as Readonly<Record<string, unknown>>;
const COLUMNS = { id: 'nr', prompt: 'question', seed: 'number' };

const rowOf = async (options: ReadRowsOptions, line = LINE): Promise<unknown> =>
  (await collect(readRows(Readable.from([line]), { columns: COLUMNS, ...options })))[0];

test('a field of a line that is called as one of ours, which is said to be elsewhere, is carried', async () => {
  const { stop: _, tools: __, ...others } = ROW;
  expect(await rowOf({ carryFields: true })).toEqual({ id: 3, prompt: 'q', stop: ['s'], carry: others });
  expect(await rowOf({})).toEqual({ id: 3, prompt: 'q', stop: ['s'] });
  expect(await rowOf({ carryFields: true }, '{"nr":1,"question":"q","seed":12345678901234567890}')).toEqual({
    id: 1,
    prompt: 'q',
    carry: { nr: 1, question: 'q', seed: '12345678901234567890' },
  });
});

test('and is a value for a template, as a column of a table is', async () => {
  const fields = { ...ROW };
  expect(await rowOf({ templated: true })).toEqual({ id: 3, fields });
  expect(await rowOf({ templated: true, columns: { ...COLUMNS, stop: 'stop' } })).toEqual({
    id: 3,
    stop: ['s'],
    fields,
  });
  const header = Object.keys(ROW).filter((name) => ROW[name] !== null);
  const table = `${header.join()}\n${header.map((name) => JSON.stringify(ROW[name])).join()}\n`;
  const [row] = await collect(
    readRows(Readable.from([table]), { format: 'csv', templated: true, columns: { id: 'nr', prompt: 'question' } }),
  );
  expect(row).toMatchObject({ id: '3', fields: { id: '7', prompt: 'old', tokens: '57' } });
  // A name that the line does not have means our field.
  expect(await rowOf({ templated: true }, '{"nr":1,"question":"q"}')).toMatchObject({
    fields: { id: 1, prompt: 'q', nr: 1 },
  });
});
