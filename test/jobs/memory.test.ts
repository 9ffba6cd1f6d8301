import { writeFileSync } from 'node:fs';
import { Writable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { parquet } from '../../src/jobs/formats/parquet/parquet.js';
import type { FinishedRow } from '../../src/jobs/formats/RowFormat.js';
import type { Table } from '../../src/jobs/formats/Table.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import { runJob } from '../../src/jobs/runJob.js';
import { temporaryFolder } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';
import { tries } from '../support/tries.js';

const path = temporaryFolder();
const ROWS = tries(150_000, 300_000);

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Lines, made as they are read. */
async function* lines(): AsyncGenerator<Buffer> {
  for (let at = 0; at < ROWS; at += 500) {
    yield Buffer.from(
      Array.from({ length: 500 }, (_, row) => `{"id":"row-${at + row}","prompt":"prompt ${at + row}"}\n`).join(''),
    );
  }
}

test('memory does not grow with the rows of a job', async () => {
  let rows = 0;
  const heaps: number[] = [];
  const engine = new StubEngine({ width: 8 });
  const output = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      for (const byte of chunk) if (byte === 0x0a) rows += 1;
      // The stub's own memory of ids is none of the job's.
      engine.admitted.length = 0;
      if (rows >= heaps.length * (ROWS / 10)) {
        collectGarbage();
        collectGarbage();
        const { heapUsed, arrayBuffers } = process.memoryUsage();
        heaps.push(heapUsed + arrayBuffers);
      }
      done();
    },
  });
  const summary = await runJob({ engine, input: readRows(lines()), output });
  expect(summary).toMatchObject({ rows: ROWS, done: ROWS, failed: 0 });
  expect(rows).toBe(ROWS);
  // The ids that were seen take some 20 bytes each; kept as strings they, or a row, would take hundreds.
  const growth = Math.max(...heaps.slice(-3)) - Math.min(...heaps.slice(2, 5));
  expect(growth).toBeLessThan(ROWS * 36);
});

test('nor with the row groups of Parquet, whose least and most values come in pages', async () => {
  const [input, groups] = [path('rows.parquet'), 12];
  const prompts = Array.from({ length: 10_000 * groups }, (_, at) => `prompt ${at} ${'and so on '.repeat(8)}`);
  writeFileSync(
    input,
    Buffer.from(
      parquetWriteBuffer({ columnData: [{ name: 'prompt', data: prompts, type: 'STRING' }], rowGroupSize: 10_000 }),
    ),
  );
  prompts.length = 0;
  const held: number[] = [];
  let table: Table | undefined;
  const source = {
    name: input,
    path: input,
    bytes: () => {
      throw new Error('nobody reads it from its beginning');
    },
  };
  const finished = async function* (): AsyncGenerator<FinishedRow> {
    let index = 0;
    for await (const { carry } of parquet.rows(source, {
      carryFields: true,
      exact: true,
      maxLineBytes: 2 ** 20,
      onTable: (found) => {
        table = found;
      },
    })) {
      yield {
        result: {
          id: index,
          index: index++,
          text: '',
          tokens: [],
          finishReason: 'stop',
          usage: { promptTokens: 1, completionTokens: 0 },
        },
        carry,
      };
    }
  };
  for await (const _ of parquet.encode(finished(), {
    table: () => table,
    resultColumns: { text: 'answer' },
    parts: [],
    name: 'output',
  })) {
    collectGarbage();
    // A second one waits for the thread that frees what the first let go of.
    collectGarbage();
    held.push(process.memoryUsage().arrayBuffers);
  }
  expect(held).toHaveLength(groups + 1);
  // Pages come and go meanwhile.
  expect(Math.min(...held.slice(-4)) - Math.min(...held.slice(0, 4))).toBeLessThan(2 * 2 ** 20);
});

test('a consumer that stops taking rows stops the reading of the input', async () => {
  let read = 0;
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of lines()) {
      read += chunk.length;
      yield chunk;
    }
  }
  const stuck = new Writable({ highWaterMark: 1000, write: () => undefined });
  const job = runJob({ engine: new StubEngine({ width: 4 }), input: readRows(counted()), output: stuck });
  for (let before = -1; before !== read; await new Promise((resolve) => setTimeout(resolve, 200))) before = read;
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(100_000);
  stuck.destroy();
  await expect(job).rejects.toThrow('the stream was closed');
});
