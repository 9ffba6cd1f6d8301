import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from '@jest/globals';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import type { RowGenerator } from '../../../src/jobs/JobOptions.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const ROWS = 50;

test.each(['csv', 'parquet', 'jsonl.gz'])(
  'a signal that comes once all rows are done ends the making of %s: nothing of it is left, and going on computes nothing',
  async (ending) => {
    const [input, output, whole] = ['in.csv', `out.${ending}`, `whole.${ending}`].map((name) => path(name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(input, `id,prompt\n${Array.from({ length: ROWS }, (_, at) => `r${at},prompt ${at}\n`).join('')}`);
    const stop = new AbortController();
    const engine: RowGenerator = {
      generate: async function* (rows, options) {
        yield* new StubEngine().generate(rows, options);
        stop.abort();
      },
    };
    const run = runJob({ engine, input, output, generate: { signal: stop.signal } });
    await expect(run).rejects.toBeInstanceOf(InterruptedError);
    expect(existsSync(output)).toBe(false);
    expect(readdirSync(dirname(output)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    const next = new StubEngine();
    expect(await runJob({ engine: next, input, output, resume: true })).toMatchObject({ done: 0, kept: ROWS });
    expect(next.admitted).toEqual([]);
    await runJob({ engine: new StubEngine(), input, output: whole });
    expect(readFileSync(output)).toEqual(readFileSync(whole));
  },
);

test('a signal that comes while the journal is put in order leaves it as it was', async () => {
  const [input, output] = [path('order.jsonl'), path('ordered.csv')];
  writeFileSync(input, Array.from({ length: ROWS }, (_, id) => `{"id":${id},"prompt":"p${id}"}\n`).join(''));
  const stop = new AbortController();
  const engine: RowGenerator = {
    generate: async function* (rows, options) {
      yield* new StubEngine({ delay: (index) => (index % 5 === 0 ? 5 : 0) }).generate(rows, options);
      stop.abort();
    },
  };
  const generate = { order: 'completion' as const };
  await expect(runJob({ engine, input, output, generate: { ...generate, signal: stop.signal } })).rejects.toThrow(
    'interrupted',
  );
  expect(existsSync(output)).toBe(false);
  expect(await runJob({ engine: new StubEngine(), input, output, resume: true, generate })).toMatchObject({
    done: 0,
    kept: ROWS,
  });
  const ids = readFileSync(output, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => Number(line.split(',')[0]));
  expect(ids).toEqual([...Array(ROWS).keys()]);
});
