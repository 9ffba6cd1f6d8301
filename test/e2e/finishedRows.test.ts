import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { concatMap, map, tap, timer } from 'rxjs';
import { Engine, InterruptedError, PeerError, type Row, type RunOptions, type RunStats } from '../../src/index.js';
import { defaultPipeline } from '../../src/api/operators.js';
import { runJob, type JobSummary, type RowGenerator, type RunJobOptions } from '../../src/api/jobs.js';
import { engineRing } from '../support/engineRing.js';
import { at, model } from './support.js';

const MODEL = model('llama-Q8_0.gguf');
/** Row 2 is long, and the rows after it are short: they are finished, and wait for it. */
const ROWS: readonly Row[] = Array.from({ length: 12 }, (_, id) => ({
  id,
  tokens: [1, 5 + id],
  maxNewTokens: id === 2 ? 100 : id === 0 ? 30 : 2,
}));
const BAD = 1;

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-finished-'));
  engine = await Engine.open({ model: MODEL, batchSize: 4, batches: 1, threads: 1, disk: folder });
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

let names = 0;
function files(rows: readonly unknown[]): { readonly input: string; readonly output: string } {
  names += 1;
  const input = join(folder, `in-${names}.jsonl`);
  writeFileSync(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return { input, output: join(folder, `out-${names}.jsonl`) };
}

const linesOf = (output: string): { readonly index: number }[] =>
  readFileSync(output, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { index: number });
const indexesIn = (output: string): number[] => linesOf(output).map(({ index }) => index);
const sorted = (output: string): string[] => readFileSync(output, 'utf8').split('\n').sort();

/** An engine that takes its time, and says when all rows but the long one are finished, and that one is not. */
function slowed(from: Engine, run: RunOptions = {}): { readonly engine: RunJobOptions['engine']; waiting(): boolean } {
  let squares = 0;
  const generator: RowGenerator = {
    resultIdentity: engine.resultIdentity,
    generate: (rows, options) =>
      from.generate(rows, {
        ...options,
        ...run,
        pipeline: (made) => (squares$) =>
          squares$.pipe(
            defaultPipeline(made),
            concatMap((square) => timer(1).pipe(map(() => square))),
            tap(() => (squares += 1)),
          ),
      }),
  };
  return { engine: generator, waiting: () => squares > 75 };
}

/** What a job that is gone on with makes of the rest: all rows are there once, as one run makes them. */
async function goOn(input: string, output: string): Promise<{ summary: JobSummary; stats: RunStats | undefined }> {
  let stats: RunStats | undefined;
  const summary = await runJob({
    engine,
    input,
    output,
    resume: true,
    generate: { ignoreEos: true, onStats: (final) => (stats = final) },
  });
  const whole = `${output}.whole.jsonl`;
  await runJob({ engine, input, output: whole, generate: { ignoreEos: true } });
  expect(readFileSync(output, 'utf8')).toBe(readFileSync(whole, 'utf8'));
  return { summary, stats };
}

describe('what is finished is written, also what waits for a row before it', () => {
  test('where more rows failed than may', async () => {
    const { input, output } = files(ROWS.map((row) => (row.id === BAD ? { id: BAD } : row)));
    const summary = await runJob({
      engine,
      input,
      output,
      maxErrors: 0,
      generate: { ignoreEos: true },
    });
    expect(summary).toMatchObject({ stopped: true, failed: 1 });
    const written = indexesIn(output);
    expect(written).toEqual(expect.arrayContaining([0, BAD, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    expect(written).not.toContain(2);
    expect(written).toHaveLength(11);
    expect(summary.done).toBe(written.length);
    const { summary: rest, stats } = await goOn(input, output);
    expect(rest).toMatchObject({ done: 1, kept: written.length });
    expect(stats?.tokens.generated).toBe(100);
  });

  test('where more rows failed than may, whatever is asked for: nothing that is finished is computed again', async () => {
    const drawn = fc.record({
      order: fc.constantFrom('input' as const, 'completion' as const),
      maxErrors: fc.nat(2),
      rows: fc.array(
        fc.record({
          bad: fc.nat(4).map((one) => one === 0),
          newTokens: fc.constantFrom(1, 2, 5, 40),
          samples: fc.constantFrom(undefined, 1, 3),
        }),
        { minLength: 4, maxLength: 24 },
      ),
    });
    let stops = 0;
    await fc.assert(
      fc.asyncProperty(drawn, async ({ order, maxErrors, rows: given }) => {
        const rows = given.map(({ bad, newTokens, samples }, id) =>
          bad ? { id } : { id, tokens: [1, 5 + id], maxNewTokens: newTokens, ...(samples && { samples, seed: id }) },
        );
        const { input, output } = files(rows);
        const generate = { ignoreEos: true, order, temperature: 1 };
        const { stopped, done } = await runJob({ engine, input, output, maxErrors, generate });
        const lines = linesOf(output);
        expect(lines).toHaveLength(done);
        let stats: RunStats | undefined;
        const rest = { engine, input, generate: { ...generate, onStats: (final: RunStats) => (stats = final) } };
        await runJob({ ...rest, output, resume: true });
        const left = given.reduce((sum, { bad, newTokens, samples = 1 }, id) => {
          const kept = lines.filter(({ index }) => index === id).length;
          return sum + (bad ? 0 : newTokens * (samples - kept));
        }, 0);
        expect(stats?.tokens.generated ?? 0).toBe(left);
        if (stopped === true) stops += 1;
        await runJob({ ...rest, output: `${output}.whole.jsonl` });
        expect(sorted(output)).toEqual(sorted(`${output}.whole.jsonl`));
      }),
      { numRuns: 25 },
    );
    expect(stops).toBeGreaterThan(5);
  });

  test('where the source of the rows fails', async () => {
    const { output } = files([]);
    const { engine: generator, waiting } = slowed(engine);
    const rows = async function* (): AsyncGenerator<Row> {
      yield* ROWS;
      await untilThat(waiting);
      throw new RangeError('the cursor was closed');
    };
    const options = { input: rows(), output, generate: { ignoreEos: true } };
    await expect(runJob({ engine: generator, ...options })).rejects.toThrow('the cursor was closed');
    expect(indexesIn(output)).toEqual(expect.arrayContaining([0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    const kept = indexesIn(output).length;
    const rest = await runJob({ engine, ...options, input: ROWS, resume: true });
    expect(rest).toMatchObject({ done: ROWS.length - kept, kept });
  });

  test('where a signal fires', async () => {
    const { input, output } = files(ROWS);
    const { engine: generator, waiting } = slowed(engine);
    const stop = new AbortController();
    const run = runJob({ engine: generator, input, output, generate: { ignoreEos: true, signal: stop.signal } });
    void untilThat(waiting).then(() => stop.abort());
    await expect(run).rejects.toBeInstanceOf(InterruptedError);
    expect(indexesIn(output)).toHaveLength(11);
    expect((await goOn(input, output)).stats?.tokens.generated).toBe(100);
  });

  test('where the engine of the other layers goes away', async () => {
    const { input, output } = files(ROWS);
    await using ring = await engineRing([1, 1], { model: MODEL, batchSize: 4, batches: 1, threads: 1, disk: folder });
    const peers = ring.connect();
    const stop = new AbortController();
    const following = at(ring.engines, 1).follow(at(peers, 1), { signal: stop.signal });
    const { engine: generator, waiting } = slowed(at(ring.engines, 0), { peers: at(peers, 0) });
    const run = runJob({ engine: generator, input, output, generate: { ignoreEos: true } });
    void untilThat(waiting).then(() => stop.abort());
    await expect(run).rejects.toBeInstanceOf(PeerError);
    await following.catch(() => undefined);
    expect(indexesIn(output)).toHaveLength(11);
    expect((await goOn(input, output)).summary).toMatchObject({ kept: 11, done: 1 });
  });
});

async function untilThat(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}
