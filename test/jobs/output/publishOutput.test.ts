import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import type { RowGenerator } from '../../../src/jobs/JobOptions.js';
import type { RowInput } from '../../../src/Row.js';
import { failureOf } from '../formats/support.js';
import { collect, readJournal, temporaryFolder, writeLines } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();

/** One that fails at every row. */
const failing: RowGenerator = new StubEngine({
  answer: () => ({ text: '', finishReason: 'error', error: { code: 'timeout', message: 'took too long' } }),
});

describe('a table of rows that failed beside an output that is none', () => {
  const ROWS = [
    { prompt: 'x', a: 1 },
    { prompt: 'y', a: 1, b: 2 },
  ];
  const RESULTS = 'id,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens';

  test('has columns for what all rows carry', async () => {
    const [input, output, errors] = [path('in.jsonl'), path('out.jsonl'), path('errors.csv')];
    writeLines(input, ROWS);
    await runJob({ engine: failing, input, output, errors, carryFields: true });
    expect(readFileSync(errors, 'utf8')).toBe(
      `a,b,${RESULTS}\n1,,1,,error,timeout,took too long,1,1\n1,2,2,,error,timeout,took too long,1,1\n`,
    );
    expect(readFileSync(output, 'utf8')).toBe('');
  });

  test('also of a Parquet file beyond its first row group, and of a stream', async () => {
    const [output, errors] = [path('many.jsonl'), path('many.parquet')];
    async function* input(): AsyncGenerator<RowInput> {
      for (let at = 0; at < 10_000; at += 1) yield { prompt: 'x', carry: { a: 1 } };
      yield { prompt: 'y', carry: { a: 1.5, b: 2 } };
    }
    await runJob({ engine: failing, input: input(), output, errors, carryFields: true });
    const rows = await collect(readRows(errors, { carryFields: true, templated: true }));
    expect(rows.length).toBe(10_001);
    expect(rows[0]?.carry).toMatchObject({ a: 1, b: null });
    expect(rows.at(-1)?.carry).toMatchObject({ a: 1.5, b: 2 });
  });

  test("what is wrong with it is told with its name, not the output's", async () => {
    const [input, output, errors] = [path('twice.jsonl'), path('twice-out.jsonl'), path('twice.csv')];
    writeLines(input, [{ prompt: 'x' }, { prompt: 'y', text: 'taken' }]);
    const options = { engine: failing, input, output, errors, carryFields: true };
    expect((await failureOf(runJob(options))).message).toMatch(/twice\.csv: found two columns "text"/);
    await runJob({ ...options, resume: true, resultColumns: { text: 'answer' } });
    expect(readFileSync(errors, 'utf8')).toMatch(/^text,id,answer,/);
  });
});

describe('lines of text, which nothing but their places tells apart', () => {
  const engine: RowGenerator = new StubEngine({
    answer: (prompt) =>
      prompt === 'p2'
        ? { text: 'cut o', finishReason: 'error', error: { code: 'timeout', message: 'took too long' } }
        : {},
  });

  test('keep an empty one for a row that failed, which stands among the errors with the reason', async () => {
    const [input, output] = [path('in.txt'), path('out.txt')];
    writeFileSync(input, 'p1\np2\np3\n');
    for (const errors of [path('failed'), path('failed.csv'), undefined]) {
      await runJob({ engine, input, output, ...(errors !== undefined && { errors }), overwrite: true });
      expect(readFileSync(output, 'utf8')).toBe('P1\n\nP3\n');
    }
    expect(readFileSync(path('failed'), 'utf8')).toBe(
      '{"id":2,"index":1,"text":"cut o","tokens":[80,50],"finishReason":"error","usage":{"promptTokens":1,"completionTokens":2},"error":{"code":"timeout","message":"took too long"}}\n',
    );
    expect(readFileSync(path('failed.csv'), 'utf8')).toMatch(/^id,text,.*\n2,cut o,error,timeout,took too long,1,2\n$/);
  });

  test('are none for errors', async () => {
    const [input, output, errors] = [path('again.txt'), path('again-out.txt'), path('errors.txt.gz')];
    writeFileSync(input, 'p1\n');
    const error = await failureOf(runJob({ engine, input, output, errors }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toBe(
      `errors: found ${errors}, which is text, expected a name with .jsonl, .csv, .tsv or .parquet: a line of text does not say which row failed, or why`,
    );
  });
});

describe('a folder that cannot be written any more when a job ends', () => {
  const isRoot = process.getuid?.() === 0;
  const be = (id: number): void => {
    if (isRoot) process.seteuid?.(id);
  };
  let jobs = 0;

  test.each([
    ['csv', 'csv'],
    ['parquet', 'parquet'],
    ['jsonl', 'jsonl'],
    ['csv', 'jsonl'],
    ['jsonl', 'csv'],
  ])(
    'output %s, errors %s: one error that says where all results stand, and a later run writes them',
    async (form, other) => {
      const folder = path(`closed-${(jobs += 1)}`);
      mkdirSync(folder);
      const [input, output, errors] = [path('rows.jsonl'), `${folder}/out.${form}`, `${folder}/errors.${other}`];
      writeLines(input, [...Array.from({ length: 6 }, (_, at) => ({ prompt: `p${at}` })), 'no row']);
      const open = (mode: number): void => {
        be(0);
        chmodSync(folder, mode);
        be(65_534);
      };
      const options = { input, output, errors };
      chmodSync(path('.'), 0o755);
      try {
        open(0o777);
        const engine = new StubEngine({
          answer: (prompt) => {
            if (prompt === 'p5') open(0o555);
            return {};
          },
        });
        const error = await failureOf(runJob({ ...options, engine }));
        expect(error).toBeInstanceOf(JobFileError);
        const journal = `${output}.rows.jsonl`;
        expect(error.message).toBe(
          `${output}: cannot be written: permission denied (EACCES); all 7 results stand in ${journal}, and \`resume\` writes them`,
        );
        expect(readJournal(journal)).toHaveLength(7);
        expect([existsSync(output), existsSync(errors)]).toEqual([false, false]);
        open(0o777);
        const again = new StubEngine();
        expect(await runJob({ ...options, engine: again, resume: true })).toMatchObject({ kept: 7, done: 0 });
        expect(again.admitted).toEqual([]);
        const rows = await collect(readRows(output, { templated: true }));
        expect(rows.map((row) => ('fields' in row ? row.fields : undefined))).toMatchObject(
          Array.from({ length: 6 }, (_, at) => ({ text: `P${at}` })),
        );
      } finally {
        be(0);
        chmodSync(folder, 0o755);
      }
    },
  );
});
