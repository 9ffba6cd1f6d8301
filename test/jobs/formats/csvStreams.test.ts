import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { encodeResults } from '../../../src/jobs/output/encodeResults.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob, type RunJobOptions } from '../../../src/jobs/runJob.js';
import type { RowInput } from '../../../src/Row.js';
import { collect, temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { failureOf } from './support.js';

const path = temporaryFolder();
const RESULTS = 'text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens';

const table = (text: string): AsyncGenerator<RowInput> =>
  readRows(new Blob([text]).stream(), { format: 'csv', carryFields: true });

async function* after(...tables: readonly AsyncIterable<RowInput>[]): AsyncGenerator<RowInput> {
  for (const rows of tables) yield* rows;
}

/** What a job of these rows writes into a stream. */
async function streamed(input: AsyncIterable<RowInput>): Promise<string> {
  const output = new PassThrough();
  const written = textOf(output);
  await runJob({ engine: new StubEngine(), input, inputFormat: 'csv', output, outputFormat: 'csv' });
  output.end();
  return written;
}

describe('a table from a stream into a stream: each value stands below the name of its own column', () => {
  const NUMBERED = 'id,2019,prompt,10\na,x,hello,"t""en"\n';

  test('where names are whole numbers, which objects put first', async () => {
    expect(await streamed(table(NUMBERED))).toBe(`id,2019,prompt,10,${RESULTS}\na,x,hello,"t""en",HELLO,stop,,,1,5\n`);
    const results = await collect(new StubEngine().generate(table(NUMBERED)));
    expect(Buffer.concat(await collect(encodeResults(results, { format: 'csv' }))).toString()).toBe(
      `id,2019,prompt,10,${RESULTS}\na,x,hello,"t""en",HELLO,stop,,,1,5\n`,
    );
    // A row that has not as many values as there are columns may be the first one.
    expect(await streamed(table('prompt,2019\nx\ny,1\n'))).toMatch(
      new RegExp(`^prompt,2019,${RESULTS}\nx,,,error,invalid-row,.*\ny,1,Y,stop,,,1,1\n$`),
    );
  });

  test('where two tables follow one another whose columns stand in another order, or some of which are missing', async () => {
    expect(await streamed(after(table('prompt,k\na,1\n'), table('k,prompt\n2,b\n'), table('prompt\nc\n')))).toBe(
      `prompt,k,${RESULTS}\na,1,A,stop,,,1,1\nb,2,B,stop,,,1,1\nc,,C,stop,,,1,1\n`,
    );
  });

  test('and one that the header does not have ends the run', async () => {
    const error = await failureOf(streamed(after(table('prompt,k\na,1\n'), table('prompt,other\nb,2\n'))));
    expect(error.message).toContain('found a row with the field "other", expected the fields of the first row');
  });
});

describe('a table that comes once into a file: its columns, their order and its dialect', () => {
  let fifos = 0;

  /** A job whose input is a FIFO with that table. */
  async function fromFifo(table: string, options: Partial<RunJobOptions> & { readonly output: string }): Promise<void> {
    fifos += 1;
    const input = path(`fifo-${fifos}`);
    execFileSync('mkfifo', [input]);
    const written = writeFile(input, table);
    await runJob({ engine: new StubEngine(), input, inputFormat: 'csv', ...options });
    await written;
  }

  const EXCEL = '\ufeffname;2019;prompt\r\na;"x;y";hello\r\nb;;"world"\r\n';
  const WRITTEN =
    `\ufeffname;2019;prompt;${RESULTS.replaceAll(',', ';')}\r\n` +
    'a;"x;y";hello;HELLO;stop;;;1;5\r\nb;;world;WORLD;stop;;;1;5\r\n';

  test('of a pipe', async () => {
    await fromFifo(EXCEL, { output: path('piped.csv') });
    expect(readFileSync(path('piped.csv'), 'utf8')).toBe(WRITTEN);
    await fromFifo('name,2019,prompt\na,1,x\n', { output: path('piped.parquet') });
    const [row] = await collect(readRows(path('piped.parquet'), { carryFields: true }));
    expect(Object.entries(row?.carry ?? {}).slice(0, 4)).toEqual([
      ['2019', '1'],
      ['name', 'a'],
      ['prompt', 'x'],
      ['text', 'X'],
    ]);
  });

  test('of a pipe, by a run that goes on', async () => {
    const output = path('resumed.csv');
    await failureOf(fromFifo(EXCEL, { output, engine: new StubEngine({ width: 1, failAt: 1 }) }));
    await fromFifo(EXCEL, { output, resume: true });
    expect(readFileSync(output, 'utf8')).toBe(WRITTEN);
  });

  test('of rows that a program has read', async () => {
    const output = path('read.csv');
    const rows = (): AsyncGenerator<RowInput> => table(EXCEL);
    await runJob({ engine: new StubEngine(), input: rows(), inputFormat: 'csv', output });
    expect(readFileSync(output, 'utf8')).toBe(WRITTEN);
    // Who changes rows on their way has what they carry.
    await runJob({ engine: new StubEngine(), input: after(rows()), inputFormat: 'csv', output, overwrite: true });
    expect(readFileSync(output, 'utf8')).toMatch(/^2019,name,prompt,text,.*\nx;y,a,hello,HELLO,/);
    // Whoever reads a stream as text sees no byte order mark.
    expect(await streamed(rows())).toBe(WRITTEN.replace('\ufeff', '').replace(';world;', ';"world";'));
  });

  test('where there are no rows', async () => {
    const header = '\ufeffname;2019;prompt\r\n';
    await fromFifo(header, { output: path('none.csv') });
    await runJob({ engine: new StubEngine(), input: table(header), inputFormat: 'csv', output: path('none-read.csv') });
    for (const name of ['none.csv', 'none-read.csv'])
      expect(readFileSync(path(name), 'utf8')).toBe(`\ufeffname;2019;prompt;${RESULTS.replaceAll(',', ';')}\r\n`);
  });

  test('and where nothing is carried, an id', async () => {
    const [output, errors] = [path('plain.jsonl'), path('plain-errors.csv')];
    await fromFifo('name,prompt\na\nb,x\n', { output, errors });
    expect(readFileSync(errors, 'utf8')).toMatch(new RegExp(`^id,${RESULTS}\n1,,error,invalid-row,.*\n$`));
    await fromFifo('name,prompt\na\nb,x\n', { output, errors, overwrite: true, carryFields: true });
    expect(readFileSync(errors, 'utf8')).toMatch(new RegExp(`^name,prompt,${RESULTS}\na,,,error,invalid-row,.*\n$`));
  });
});
