import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { readWithSpelling, SpelledNumber, spelledInParts } from '../../../src/arguments/jsonNumbers.js';
import { fieldsOfTable, tableRow } from '../../../src/jobs/formats/tableRow.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import type { RowInput } from '../../../src/Row.js';
import { collect } from '../support/files.js';

const rowsOf = (text: string, format: 'csv' | 'jsonl'): Promise<RowInput[]> =>
  collect(readRows(Readable.from([text]), { format, carryFields: true }));

describe('JSON of megabytes in a value of a table', () => {
  const many = `[${'{},'.repeat(1_000_000)}{}]`;

  test.each(['messages', 'tokens', 'tools', 'templateArgs', 'responseFormat'])(
    'that would take hundreds of megabytes as %s is the error of its row, and is not read',
    async (field) => {
      const columns = field === 'messages' || field === 'tokens' ? {} : { [field]: field };
      const text = `n,prompt,${field}\n1,a,${many.replace(/.*/s, '"$&"')}\n2,b,\n`;
      const rows = await collect(
        readRows(Readable.from([text]), { format: 'csv', columns: { ...columns, id: 'n', [field]: field } }),
      );
      expect(rows[0]).toMatchObject({
        error: {
          code: 'limit',
          message: expect.stringContaining(`row 1, ${field}: found JSON whose values take more`),
        },
      });
      expect(rows[1]).toMatchObject({ id: '2' });
    },
  );

  test('is an error likewise where rows are made at once, as those of Parquet are', () => {
    const fields = fieldsOfTable('t', ['messages'], undefined);
    expect(tableRow({ messages: many }, fields, 7)).toMatchObject({ error: { code: 'limit' } });
    expect(tableRow({ messages: `[${' '.repeat(9 * 2 ** 20)}]` }, fields, 7)).toMatchObject({
      error: { code: 'limit' },
    });
  });

  test('of few values is read', async () => {
    const content = 'what is so is so, '.repeat(100_000);
    const messages = JSON.stringify([{ role: 'user', content }]).replaceAll('"', '""');
    const [row] = await rowsOf(`messages\n"${messages}"\n`, 'csv');
    expect(row).toMatchObject({ messages: [{ role: 'user', content }] });
  });
});

describe('numbers that keep their spelling', () => {
  const list = Array.from({ length: 60_000 }, (_, at) => `9007199254${740_993 + at}`).join();

  test('are read in slices', () => {
    const json = `{"templateArgs":[${list}]}`;
    let slices = 0;
    const work = spelledInParts(json, JSON.parse(json));
    let step = work.next();
    for (; step.done !== true; step = work.next()) slices += 1;
    expect(slices).toBeGreaterThan(20);
    const { templateArgs } = step.value as { templateArgs: readonly SpelledNumber[] };
    expect(templateArgs).toHaveLength(60_000);
    expect(templateArgs.every((each) => each instanceof SpelledNumber)).toBe(true);
    expect(templateArgs.map(({ spelling }) => spelling).join()).toBe(list);
  });

  test('wherever they stand, under whatever name', () => {
    const json =
      '{"__proto__":1.0,"a":[1.0,[2e3,{"b":-0,"spelled":"1.0"}],1.5,7,"1.0",null],"constructor":{"x":1e400}}';
    const value = readWithSpelling(json) as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    const told = JSON.stringify(value, function (this: Record<string, unknown>, name: string, member: unknown) {
      const own = this[name];
      return own instanceof SpelledNumber ? `= ${own.spelling}` : member;
    });
    expect(told).toBe(
      '{"__proto__":"= 1.0","a":["= 1.0",["= 2e3",{"b":"= -0","spelled":"1.0"}],1.5,7,"1.0",null],"constructor":{"x":"= 1e400"}}',
    );
  });
});
