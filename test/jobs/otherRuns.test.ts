import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { RowInput, RowResult } from '../../src/Row.js';
import { failureOf } from './formats/support.js';
import { readJournal, readResults, temporaryFolder, writeLines } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
let names = 0;

/** A fresh folder with an input; results have one row with an error. */
function files(prompts: readonly string[] = ['a', 'b', 'c', 'd']): {
  folder: string;
  input: string;
  output: string;
  errors: string;
  journal: string;
} {
  const folder = path(String((names += 1)));
  mkdirSync(folder);
  const input = `${folder}/in.jsonl`;
  writeLines(input, [...prompts.map((prompt) => ({ prompt })), 'no row']);
  const output = `${folder}/out.jsonl`;
  return { folder, input, output, errors: `${folder}/failed.jsonl`, journal: `${output}.rows.jsonl` };
}

const run = (options: Omit<RunJobOptions, 'engine'>, failAt?: number): ReturnType<typeof runJob> =>
  runJob({ engine: new StubEngine(failAt === undefined ? {} : { failAt, width: 1 }), ...options });
const texts = (file: string): string[] => readResults(file).map(({ text }) => text);

describe("what an earlier run left is taken from its record, and is that run's", () => {
  test("with --errors, then without and anew, then resumed with: the old journal is not published as the new run's results", async () => {
    const { input, output, errors, journal } = files();
    await run({ input, output, errors });
    expect(existsSync(journal)).toBe(true);
    const other = `${input}.other`;
    writeLines(other, [{ prompt: 'x' }, { prompt: 'y' }]);
    await run({ input: other, output, overwrite: true });
    expect(texts(output)).toEqual(['X', 'Y']);
    expect(existsSync(journal)).toBe(false);
    rmSync(errors);
    const error = await failureOf(run({ input: other, output, errors, resume: true }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain(
      `cannot be resumed with \`errors\` ${errors}, as the run that began it writes all results into it`,
    );
    expect(texts(output)).toEqual(['X', 'Y']);
    expect(await run({ input: other, output, resume: true })).toMatchObject({ kept: 2, done: 0 });
  });

  test('begun with --errors and killed, resumed without: it goes on, from the journal', async () => {
    const { input, output, errors } = files();
    await failureOf(run({ input, output, errors }, 2));
    const { kept, done } = await run({ input, output, resume: true });
    expect([kept, done]).toEqual([2, 3]);
    expect(readResults(output).map(({ text, error }) => error?.code ?? text)).toEqual([
      'A',
      'B',
      'C',
      'D',
      'invalid-json',
    ]);
  });

  test('begun with --errors and killed, then begun without, and without a word: refused', async () => {
    const { input, output, errors, journal } = files();
    await failureOf(run({ input, output, errors }, 2));
    expect((await failureOf(run({ input, output }))).message).toBe(
      `${journal} exists; \`resume\` goes on with it, \`overwrite\` begins anew`,
    );
    await run({ input, output, overwrite: true });
    expect(existsSync(journal)).toBe(false);
  });

  test('the journal of another run under a record, in whatever way it came there', async () => {
    const [one, two] = [files(), files(['p', 'q'])];
    await run({ input: one.input, output: one.output, errors: one.errors });
    await run({ input: two.input, output: two.output, errors: two.errors });
    for (const content of [
      readFileSync(two.journal),
      readFileSync(two.journal).subarray(readFileSync(two.journal).indexOf('\n') + 1),
      '',
    ]) {
      writeFileSync(one.journal, content);
      const error = await failureOf(run({ input: one.input, output: one.output, errors: one.errors, resume: true }));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toContain('holds the results of another run than');
    }
    rmSync(one.journal);
    expect(
      (await failureOf(run({ input: one.input, output: one.output, errors: one.errors, resume: true }))).message,
    ).toContain(`${one.journal} with its results is not; put it back`);
    rmSync(`${one.output}.job.json`);
    rmSync(one.errors);
    expect(
      (await failureOf(run({ input: one.input, output: one.output, errors: one.errors, resume: true }))).message,
    ).toContain('there is no');
  });

  test('another form of output from the same journal', async () => {
    const { folder, input, errors } = files();
    const output = `${folder}/out.csv`;
    await run({ input, output });
    await run({ input, output, outputFormat: 'jsonl', errors, resume: true });
    expect(texts(output)).toEqual(['A', 'B', 'C', 'D']);
    expect(texts(errors)).toEqual(['']);
    const plain = files();
    await run({ input: plain.input, output: plain.output });
    expect(
      (await failureOf(run({ input: plain.input, output: plain.output, outputFormat: 'csv', resume: true }))).message,
    ).toContain('cannot be resumed as csv');
  });
});

describe('names of one file', () => {
  test('a link and what it leads to are one output: locked, recorded and resumed as one', async () => {
    for (const name of ['out.jsonl', 'out.csv']) {
      const { folder, input } = files();
      mkdirSync(`${folder}/far`);
      const [output, link] = [`${folder}/far/${name}`, `${folder}/link-${name}`];
      symlinkSync(`far/${name}`, link);
      let open = (): void => undefined;
      const gate = new Promise<void>((resolve) => {
        open = resolve;
      });
      const stub = new StubEngine();
      const waiting = {
        async *generate(rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult> {
          await gate;
          yield* stub.generate(rows);
        },
      };
      const first = runJob({ engine: waiting, input, output: link });
      while (!existsSync(`${output}.lock`)) await new Promise((resolve) => setTimeout(resolve, 1));
      expect((await failureOf(run({ input, output, resume: true }))).message).toContain('is in use by process');
      open();
      await first;
      expect(lstatSync(link).isSymbolicLink()).toBe(true);
      expect(readlinkSync(link)).toBe(`far/${name}`);
      expect(readdirSync(folder).sort()).toEqual(['far', 'in.jsonl', `link-${name}`].sort());
      expect(await run({ input, output, resume: true })).toMatchObject({ kept: 5, done: 0 });
    }
  });

  test('hard links: refused, as another job may write by the other name; where the file is replaced, they part', async () => {
    const { folder, input, output } = files();
    await run({ input, output });
    linkSync(output, `${folder}/second.jsonl`);
    expect((await failureOf(run({ input, output, resume: true }))).message).toContain(
      'found a file with 2 names (hard links), expected one',
    );
    const table = `${folder}/out.csv`;
    await run({ input, output: table });
    linkSync(table, `${folder}/second.csv`);
    const before = readFileSync(table, 'utf8');
    await run({ input, output: table, overwrite: true });
    expect(readFileSync(`${folder}/second.csv`, 'utf8')).toBe(before);
  });
});

test('permissions of what is overwritten stay, in every form: output, journal, record, errors', async () => {
  for (const name of ['out.jsonl', 'out.csv']) {
    const { folder, input } = files();
    const output = `${folder}/${name}`;
    await run({ input, output });
    chmodSync(output, 0o600);
    chmodSync(`${output}.job.json`, 0o600);
    if (name === 'out.csv') chmodSync(`${output}.rows.jsonl`, 0o600);
    await failureOf(run({ input, output, overwrite: true }, 3));
    await run({ input, output, resume: true, retryErrors: true });
    const modes = readdirSync(folder)
      .filter((file) => file.startsWith('out'))
      .map((file) => [file, (statSync(`${folder}/${file}`).mode & 0o777).toString(8)]);
    expect(modes).toEqual(modes.map(([file]) => [file, '600']));
  }
});

describe('rows that failed', () => {
  test("go into no file that is not the job's, whatever is said of the output", async () => {
    const { input, output, errors } = files();
    writeFileSync(errors, 'mine');
    for (const change of [{}, { resume: true }, { overwrite: true }]) {
      const error = await failureOf(run({ input, output, errors, ...change }));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toBe(
        `${errors}: found a file that is not the errors of this job, expected none; move it away, or give another`,
      );
      expect(readFileSync(errors, 'utf8')).toBe('mine');
    }
    rmSync(errors);
    await run({ input, output, errors });
    expect(texts(errors)).toHaveLength(1);
    await run({ input, output, errors, resume: true });
    await run({ input, output, errors, overwrite: true });
    expect((await failureOf(run({ input, output: `${output}.other.jsonl`, errors }))).message).toContain(
      'not the errors of this job',
    );
  });

  test('two jobs on one file of errors: the second is refused while the first runs', async () => {
    const { folder, input, output, errors } = files();
    writeFileSync(errors, '');
    symlinkSync('failed.jsonl', `${folder}/link`);
    const engine = {
      async *generate(rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult> {
        expect(
          (await failureOf(run({ input, output: `${output}.2.jsonl`, errors: `${folder}/link` }))).message,
        ).toContain('is in use by process');
        yield* new StubEngine().generate(rows);
      },
    };
    await runJob({ engine, input, output, errors });
    expect(readdirSync(folder).filter((name) => name.endsWith('.lock'))).toEqual([]);
  });
});

test('a FIFO where the journal goes is refused by its name', async () => {
  const { folder, input } = files();
  const output = `${folder}/out.csv`;
  execFileSync('mkfifo', [`${output}.rows.jsonl`]);
  const error = await failureOf(run({ input, output }));
  expect(error).toBeInstanceOf(JobFileError);
  expect(error.message).toBe(
    `${output}.rows.jsonl: found a FIFO, expected no file or rows of output; move it away, or give another output`,
  );
  // Where nothing goes there, it is nobody's business.
  execFileSync('mkfifo', [`${folder}/out.jsonl.rows.jsonl`]);
  expect(await run({ input, output: `${folder}/out.jsonl` })).toMatchObject({ done: 5 });
});

test('a run that was killed before it had recorded itself leaves a journal that the next one begins anew', async () => {
  for (const left of [
    '',
    '{"format":"spi',
    '{"format":"spillway-rows","run":"00',
    '{"format":"spillway-rows","run":"0000000000000000"}\n',
  ]) {
    const { folder, input } = files();
    const output = `${folder}/out.csv`;
    writeFileSync(`${output}.rows.jsonl`, left);
    expect(await run({ input, output, resume: true })).toMatchObject({ kept: 0, done: 5 });
  }
});

test('a journal has a line of its own, and results behind it', async () => {
  const { input, output, errors, journal } = files();
  await run({ input, output, errors, generate: { order: 'completion' } });
  expect(readFileSync(journal, 'utf8')).toMatch(/^\{"format":"spillway-rows","run":"[0-9a-f]{16}"\}\n\{"id":1,/);
  expect(readJournal(journal)).toHaveLength(5);
});
