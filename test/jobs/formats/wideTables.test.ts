import { expect, test } from '@jest/globals';
import { nearest } from '../../../src/arguments/nearest.js';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { valuesByName } from '../../../src/jobs/formats/csv.js';
import { resultColumns } from '../../../src/jobs/formats/resultColumns.js';
import { fieldsOfTable } from '../../../src/jobs/formats/tableRow.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { ROW_LIMITS } from '../../../src/model/files/limits.js';
import { misspelt } from '../../../src/rows/misspelt.js';
import { collect } from '../support/files.js';
import { failureOf } from './support.js';

/** Milliseconds of this process's processor time. */
function processorTime(work: () => void): number {
  const before = process.cpuUsage();
  work();
  return process.cpuUsage(before).user / 1000;
}

const named = (count: number): readonly string[] => [
  'prompt',
  ...Array.from({ length: count - 1 }, (_, at) => `c${at}`),
];

/** Ten times as much takes ten times as long, and not a hundred times. */
test.each<[string, (count: number) => void]>([
  ['columns of a table', (count) => void fieldsOfTable('t', named(count))],
  [
    'columns beside results',
    (count) => void resultColumns(named(count), { table: () => undefined, resultColumns: {}, parts: [], name: 'out' }),
  ],
  [
    'fields that may be misspelt',
    (count) => void misspelt(Object.fromEntries(Array.from({ length: count }, (_, at) => [`x${count}field${at}`, at]))),
  ],
  ['names that may be meant', (count) => void nearest('somethingelse', named(count))],
])('%s: time grows with their number', (_, work) => {
  work(600);
  const [few, many] = [6_000, 60_000].map((count) => processorTime(() => work(count)));
  expect(many).toBeLessThan(40 * Math.max(few ?? 0, 4));
});

async function* csvOf(columns: number, rows: readonly string[]): AsyncGenerator<string> {
  yield `id,${named(columns - 1).join(',')}\n`;
  for (const row of rows) yield `${row}\n`;
  await Promise.resolve();
}

test('a table may have so many columns, and a row of it so many values', async () => {
  const most = ROW_LIMITS.tableColumns;
  const whole = csvOf(most, [`1,hello${','.repeat(most - 2)}`, `2,hi${','.repeat(most - 1)}`]);
  const [good, long] = await collect(readRows(whole, { format: 'csv' }));
  expect(good).toMatchObject({ id: '1', prompt: 'hello' });
  expect(long).toMatchObject({
    error: { message: `row 2: found more than ${most} values, expected ${most}, as the header has columns` },
  });

  const failure = await failureOf(collect(readRows(csvOf(most + 1, []), { format: 'csv' })));
  expect(failure).toBeInstanceOf(JobFileError);
  expect(failure.message).toContain(`found ${most + 1} columns, expected at most ${most} columns of a table`);
});

test('the values of many columns are put into a row in parts', () => {
  const names = [...named(20_000), '__proto__', '7'];
  const kept = names.map((name, at) => [name, at] as const);
  const values = names.slice(1).map((name) => `of ${name}`);
  const work = valuesByName(kept, values);
  let parts = 1;
  let step = work.next();
  for (; step.done !== true; step = work.next()) parts += 1;
  expect(parts).toBeGreaterThan(4);
  const expected = Object.fromEntries(kept.map(([name, at]) => [name, values[at] ?? '']));
  expect(Object.entries(step.value)).toEqual(Object.entries(expected));
  expect(Object.getPrototypeOf(step.value)).toBe(Object.prototype);
});

test('a line of nothing but commas is given up before it is held, and the next row is read', async () => {
  async function* lines(): AsyncGenerator<string> {
    yield 'id,prompt\n';
    for (let at = 0; at < 400; at++) yield ','.repeat(65_536);
    yield '\n2,hi\n';
    await Promise.resolve();
  }
  const rows = await collect(readRows(lines(), { format: 'csv' }));
  expect(rows).toMatchObject([{ error: { code: 'too-long' } }, { id: '2', prompt: 'hi' }]);
});
