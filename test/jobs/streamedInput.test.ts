import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { UsageError } from '../../src/errors/UsageError.js';
import { recordPath } from '../../src/jobs/output/sidecarFiles.js';
import { runJob } from '../../src/jobs/runJob.js';
import type { JobSummary } from '../../src/jobs/JobOptions.js';
import type { RowInput } from '../../src/Row.js';
import { failureOf } from './formats/support.js';
import { readResults, temporaryFolder } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
let names = 0;

/** Rows that nobody gave an id, as lines of text from a pipe have none: they are known by where they stand. */
async function* rows(prompts: readonly string[]): AsyncGenerator<RowInput> {
  for (const [at, prompt] of prompts.entries()) yield { id: at + 1, duplicate: false, prompt };
}

const PROMPTS = Array.from({ length: 12 }, (_, at) => `prompt ${at}`);
const changed = (at: number): string[] => PROMPTS.map((prompt, row) => (row === at ? 'another' : prompt));

/** A job that was begun, and whose engine failed at that row, if at any; and how to go on with it. */
async function begun(
  failAt?: number,
): Promise<{ output: string; goOn: (prompts: readonly string[]) => Promise<JobSummary> }> {
  names += 1;
  const output = path(`${names}.jsonl`);
  const run = runJob({
    engine: new StubEngine({ width: 2, ...(failAt !== undefined && { failAt }) }),
    input: rows(PROMPTS),
    output,
  });
  if (failAt === undefined) await run;
  else await failureOf(run);
  return {
    output,
    goOn: (prompts) => runJob({ engine: new StubEngine(), input: rows(prompts), output, resume: true }),
  };
}

function readOf(output: string): { readonly rows: number; readonly sha256: string } {
  return (JSON.parse(readFileSync(recordPath(output), 'utf8')) as { input: { read: { rows: number; sha256: string } } })
    .input.read;
}

describe('an input that comes once, without ids', () => {
  test('is gone on with where it is the same, and where it has got more rows', async () => {
    const { output, goOn } = await begun(7);
    expect(await goOn(PROMPTS)).toMatchObject({ rows: 12 });
    expect(await goOn([...PROMPTS, 'one more'])).toMatchObject({ rows: 13, done: 1 });
    expect(readResults(output).map(({ text }) => text)).toEqual(
      [...PROMPTS, 'one more'].map((prompt) => prompt.toUpperCase()),
    );
  });

  test.each([
    [undefined, 1],
    [undefined, 11],
    [7, 1],
    [7, 6],
  ])(
    'is refused where a row that a run has read is another one (engine failed at %p, row %d changed)',
    async (failAt, at) => {
      const { output, goOn } = await begun(failAt);
      const before = readResults(output);
      const error = await failureOf(goOn(changed(at)));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(
        /^the first \d+ rows of the input are not those that the run before read; it was begun with another input$/,
      );
      expect(readResults(output).slice(0, before.length)).toEqual(before);
      // As it was, it is still gone on with.
      expect(await goOn(PROMPTS)).toMatchObject({ rows: 12 });
      expect(readResults(output).map(({ text }) => text)).toEqual(PROMPTS.map((prompt) => prompt.toUpperCase()));
    },
  );

  test('none of the rows that a run had read is answered before all of them are known to be the same', async () => {
    const { output } = await begun(7);
    const [engine, before] = [new StubEngine({ width: 1 }), readResults(output).length];
    await failureOf(runJob({ engine, input: rows(changed(before + 1)), output, resume: true }));
    expect(engine.admitted).toEqual([]);
    expect(readResults(output)).toHaveLength(before);
  });

  test('a run that tries errors again, and is killed, leaves nothing behind that refuses the input', async () => {
    const { output } = await begun(7);
    const input = rows(changed(11));
    const ended = runJob({
      engine: new StubEngine({ delay: () => 5 }),
      input,
      output,
      resume: true,
      retryErrors: true,
    });
    while (readResults(output).length < 9) await new Promise((resolve) => setTimeout(resolve, 1));
    expect((JSON.parse(readFileSync(recordPath(output), 'utf8')) as { input: object }).input).not.toHaveProperty(
      'read',
    );
    await ended;
  });

  test('rows that failed may be others when they are tried again', async () => {
    names += 1;
    const output = path(`${names}.jsonl`);
    const given = (second: RowInput): RowInput[] => [{ id: 'a', prompt: 'x' }, second, { id: 'c', prompt: 'z' }];
    const run = (second: RowInput, retryErrors = false): Promise<JobSummary> =>
      runJob({ engine: new StubEngine(), input: given(second), output, resume: true, retryErrors });
    await run({ id: 'b', error: { code: 'invalid-row', message: 'no' } });
    expect((await failureOf(run({ id: 'b', prompt: 'y' }))).message).toContain(
      'the first 3 rows of the input are not those',
    );
    expect(await run({ id: 'b', prompt: 'y' }, true)).toMatchObject({ done: 1, kept: 2 });
    expect(await run({ id: 'b', prompt: 'y' })).toMatchObject({ done: 0, kept: 3 });
  });

  test('is refused where it has become shorter, though all of its rows are done', async () => {
    const { goOn } = await begun(7);
    await goOn(PROMPTS);
    expect((await failureOf(goOn(PROMPTS.slice(0, 11)))).message).toContain('the input has 11 rows');
  });

  test('what no run has read may change; of a run that was killed no more is known than its first row', async () => {
    const { goOn } = await begun(3);
    expect(await goOn(changed(11))).toMatchObject({ rows: 12 });
    const killed = await begun(7);
    expect(readOf(killed.output).sha256).toMatch(/^[0-9a-f]{64}$/);
    // As kill -9 leaves it.
    const record = JSON.parse(readFileSync(recordPath(killed.output), 'utf8')) as { input: { read?: object } };
    delete record.input.read;
    writeFileSync(recordPath(killed.output), JSON.stringify(record));
    expect((await failureOf(killed.goOn(changed(0)))).message).toContain(
      'differs from the one that began it in the input',
    );
  });

  test('however often it is cut off, and whatever changes in what was read, no answer is of another row', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 11 }), { maxLength: 3 }),
        fc.option(fc.integer({ min: 1, max: 11 })),
        async (cuts, at) => {
          names += 1;
          const output = path(`${names}.jsonl`);
          for (const failAt of cuts) {
            await runJob({
              engine: new StubEngine({ width: 2, failAt }),
              input: rows(PROMPTS),
              output,
              resume: true,
            }).catch(() => undefined);
          }
          const read = cuts.length === 0 ? 0 : readOf(output).rows;
          if (cuts.length > 0) expect(read).toBeGreaterThan(Math.max(...cuts.slice(0, 1)));
          const prompts = at === null ? PROMPTS : changed(at);
          const ended = await runJob({ engine: new StubEngine(), input: rows(prompts), output, resume: true }).then(
            () => true,
            (error: unknown) => error instanceof UsageError && 'refused',
          );
          if (at !== null && at < read) expect(ended).toBe('refused');
          else {
            expect(ended).toBe(true);
            expect(readResults(output).map(({ text }) => text)).toEqual(prompts.map((prompt) => prompt.toUpperCase()));
          }
          rmSync(output);
        },
      ),
      { numRuns: 40 },
    );
  });
});
