import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { readRows } from '../../../src/jobs/input/readRows.js';
import type { TakenColumns } from '../../../src/jobs/formats/RowFormat.js';
import { runJob, type RunJobOptions } from '../../../src/jobs/runJob.js';
import type { RowInput, RowResult } from '../../../src/Row.js';
import { collect, readResults, temporaryFolder } from '../support/files.js';
import { failureOf } from '../formats/support.js';

const path = temporaryFolder();
let names = 0;

/** What a job makes of rows on their way to the engine, and the results that it writes. */
async function sent(
  input: Iterable<unknown> | AsyncIterable<unknown>,
  options: Partial<RunJobOptions> = {},
  extension = 'jsonl',
): Promise<{ readonly rows: readonly RowInput[]; readonly output: string }> {
  const rows: RowInput[] = [];
  const engine = {
    async *generate(given: AsyncIterable<RowInput>) {
      for await (const row of given) {
        rows.push(row);
        const { id = 0, index = 0, carry } = row;
        const usage = { promptTokens: 1, completionTokens: 1 };
        const error = 'error' in row ? row.error : undefined;
        yield {
          ...{ id, index, usage, text: 'a', tokens: [1], finishReason: error ? 'error' : 'stop' },
          ...(error && { error }),
          ...(carry && { carry }),
        } as RowResult;
      }
    },
  };
  const output = path(`out-${names++}.${extension}`);
  await runJob({ engine, input: input as Iterable<RowInput>, output, ...options });
  return { rows, output };
}

/** As a cursor gives them. */
async function* cursor(): AsyncGenerator {
  const moment = new Date('2026-01-02T03:04:05.678Z');
  yield {
    nr: 7n,
    question: 'q1',
    seen: moment,
    n: null,
    big: 2n ** 60n,
    raw: Buffer.from('ab'),
    seed: 21.5,
    deep: { at: [moment, 3n] },
  };
  yield { nr: 8n, question: 'q2', seen: null, n: 1.5, big: 1n, raw: null, seed: 1, deep: null };
}
const CARRIED = {
  nr: 7,
  question: 'q1',
  seen: '2026-01-02T03:04:05.678Z',
  n: null,
  big: '1152921504606846976',
  raw: 'YWI=',
  seed: 21.5,
  deep: { at: ['2026-01-02T03:04:05.678Z', 3] },
};

describe("objects whose keys are columns are a table's rows", () => {
  const columns = { id: 'nr', prompt: 'question' };

  test('fields by the columns that are named, parameters only so, all others carried', async () => {
    const told: TakenColumns[] = [];
    const { rows, output } = await sent(cursor(), {
      columns,
      carryFields: true,
      onColumns: (taken) => told.push(taken),
    });
    expect(rows).toMatchObject([
      { id: 7, prompt: 'q1', carry: CARRIED },
      { id: 8, prompt: 'q2' },
    ]);
    expect(rows[0]).not.toHaveProperty('seed');
    expect(told).toEqual([{ fields: columns, likeParameters: ['seed'] }]);
    expect(readResults(output)[0]).toMatchObject({ id: 7, row: CARRIED });
    const [named] = (await sent(cursor(), { columns: { ...columns, seed: 'n' } })).rows;
    expect(named).toEqual({ id: 7, index: 0, duplicate: false, prompt: 'q1' });
  });

  test.each(['csv', 'parquet'])('into a table, %s, all columns go', async (extension) => {
    const { output } = await sent(cursor(), { columns }, extension);
    const [first, second] = (await collect(readRows(output, { carryFields: true, templated: true }))).map(
      ({ carry }) => carry,
    );
    expect(first).toMatchObject({ question: 'q1', seen: CARRIED.seen, raw: 'YWI=', text: 'a' });
    expect([String(first?.['nr']), String(first?.['big'])]).toEqual(['7', CARRIED.big]);
    expect(second).toMatchObject({ question: 'q2' });
    if (extension === 'csv')
      expect(readFileSync(output, 'utf8')).toMatch(/^nr,question,seen,n,big,raw,seed,deep,id,text,finish_reason,/);
  });

  test('a column that is named and not there is told', async () => {
    const error = await failureOf(sent(cursor(), { columns: { prompt: 'asked' } }));
    expect(error.message).toContain('found no column "asked", which `columns` names');
  });

  test('all are values for a template, with or without names of columns', async () => {
    const generate = { promptTemplate: '{{question}}{{n?}}' };
    for (const more of [{}, { columns: { id: 'nr' } }]) {
      const { rows } = await sent(cursor(), { generate, ...more });
      expect(rows[0]).toMatchObject({ fields: CARRIED });
      expect(rows[0]).not.toHaveProperty('prompt');
    }
  });

  test('rows of readers are as they were read', async () => {
    const read = readRows(Readable.from(['{"prompt":"p","seed":3}\n']));
    expect((await sent(read, { columns: { prompt: 'x' } })).rows).toMatchObject([{ prompt: 'p', seed: 3 }]);
  });
});

describe('rows as programs make them', () => {
  test('keep what they say; what is no field goes into a table, or where it is asked for', async () => {
    const row = { id: 'a', prompt: 'p', seed: 3, chat: true, topic: 't' };
    const { topic: _, ...own } = row;
    expect((await sent([row])).rows).toEqual([{ ...own, index: 0, duplicate: false }]);
    for (const { rows } of [await sent([row], { carryFields: true }), await sent([row], {}, 'csv')])
      expect(rows).toEqual([{ ...own, index: 0, duplicate: false, carry: { topic: 't' } }]);
    expect((await sent([{ ...row, carry: { x: 1 } }], {}, 'csv')).rows).toMatchObject([{ carry: { x: 1 } }]);
    const misspelt = { prompt: 'p', max_tokens: 5 };
    for (const extension of ['jsonl', 'csv'])
      expect((await sent([misspelt], {}, extension)).rows).toMatchObject([{ error: { code: 'invalid-row' } }]);
    expect((await sent([misspelt], { carryFields: true })).rows).toMatchObject([{ carry: { max_tokens: 5 } }]);
  });

  test('what cannot be read is an error row, and others go on', async () => {
    const cycle: Record<string, unknown> = { prompt: 'p' };
    cycle['self'] = cycle;
    const throws = {
      prompt: 'p',
      get more(): unknown {
        throw new Error('gone');
      },
    };
    const { rows, output } = await sent([throws, 7, cycle, { prompt: 'q' }], { carryFields: true });
    expect(rows).toMatchObject([
      { error: { code: 'invalid-row', message: expect.stringContaining('gone') } },
      { error: { code: 'invalid-row' } },
      { prompt: 'p' },
      { prompt: 'q' },
    ]);
    expect(readResults(output).map(({ error }) => error?.code)).toEqual([
      'invalid-row',
      'invalid-row',
      'invalid-row',
      undefined,
    ]);
  });
});
