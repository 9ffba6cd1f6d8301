import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { encodeResults } from '../../../src/jobs/output/encodeResults.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import type { RowInput } from '../../../src/Row.js';
import { collect } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { failureOf } from './support.js';

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
