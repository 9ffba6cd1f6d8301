import {
  appendFileSync,
  chmodSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { GenerateOptions, RowInput, RowResult } from '../../src/Row.js';
import { byIndex, readResults, temporaryFolder } from './support/files.js';

const path = temporaryFolder();
/** The input is longer than what is read, and compared, at a time: 1 MiB. */
const ROWS = 1200;
const PADDING = 'x'.repeat(1000);
const CHANGED_AT = 100;

let names = 0;

/** Rows of one length, so that any of them can be replaced where it stands. */
function lineOf(row: number, word: string, format: 'jsonl' | 'text'): string {
  const text = `${word} ${String(row).padStart(5, '0')} ${PADDING}`;
  return `${format === 'text' ? text : JSON.stringify({ id: `row-${row}`, prompt: text })}\n`;
}

const whole = (format: 'jsonl' | 'text' = 'jsonl'): string =>
  Array.from({ length: ROWS }, (_, row) => lineOf(row, 'first', format)).join('');

/**
 * An engine that answers at once, with the beginning of the prompt in capitals, and changes the input once, after so
 * many results.
 */
class Answers {
  constructor(
    private readonly meddle: () => void = () => undefined,
    private readonly after = CHANGED_AT,
  ) {}

  async *generate(
    rows: AsyncIterable<RowInput>,
    options?: GenerateOptions,
  ): AsyncGenerator<RowResult, void, undefined> {
    let done = 0;
    for await (const row of rows) {
      if (options?.signal?.aborted === true) return;
      const text = 'prompt' in row ? (row.prompt ?? '').slice(0, 11).toUpperCase() : '';
      yield {
        id: row.id ?? 0,
        index: row.index ?? 0,
        text,
        tokens: [],
        finishReason: 'stop',
        usage: { promptTokens: 1, completionTokens: 0 },
      };
      done += 1;
      if (done === this.after) this.meddle();
    }
  }
}

async function failure(run: Promise<unknown>): Promise<Error> {
  return run.then(
    () => {
      throw new Error('expected the job to fail');
    },
    (error: unknown) => error as Error,
  );
}

function files(format: 'jsonl' | 'text' = 'jsonl'): { input: string; output: string } {
  names += 1;
  const input = path(`in-${names}`);
  writeFileSync(input, whole(format));
  return { input, output: path(`out-${names}`) };
}

interface Change {
  readonly change: (input: string) => void;
  readonly message: RegExp;
  /** Whether rows that come after the change may be answered: those of the bytes that were counted are there still. */
  readonly readToTheEnd: boolean;
}

const other = (format: 'jsonl' | 'text', from = 0): string =>
  Array.from({ length: ROWS }, (_, row) => lineOf(row, row >= from ? 'other' : 'first', format)).join('');

const CHANGES = (format: 'jsonl' | 'text'): Readonly<Record<string, Change>> => ({
  'cut short in place': {
    change: (input) => truncateSync(input, 1_100_000),
    message: /shrank during the run: found 1100000 bytes, expected the \d+ bytes \(1200 rows\)/,
    readToTheEnd: false,
  },
  emptied: {
    change: (input) => truncateSync(input, 0),
    message: /shrank during the run: found 0 bytes/,
    readToTheEnd: false,
  },
  'rewritten in place, as long as before': {
    change: (input) => writeFileSync(input, other(format)),
    message: /changed during the run: found other bytes after byte \d+/,
    readToTheEnd: false,
  },
  'one row changed near the end': {
    change: (input) => writeFileSync(input, other(format, ROWS - 1)),
    message: /changed during the run: found other bytes after byte 1048576,/,
    readToTheEnd: false,
  },
  'appended to': {
    change: (input) => appendFileSync(input, lineOf(ROWS, 'first', format)),
    message: /grew during the run: found \d+ bytes, expected the \d+ bytes \(1200 rows\)/,
    readToTheEnd: true,
  },
  'replaced by another file': {
    change: (input) => {
      writeFileSync(`${input}.new`, other(format));
      renameSync(`${input}.new`, input);
    },
    message: /changed during the run/,
    readToTheEnd: true,
  },
});

describe('an input that changes while it is read', () => {
  test.each(
    Object.keys(CHANGES('jsonl')).flatMap(
      (name) =>
        [
          [name, 'jsonl', 'input'],
          [name, 'text', 'completion'],
        ] as const,
    ),
  )('%s, %s, in order of %s: an error, and what is finished is right and gone on with', async (name, format, order) => {
    const { input, output } = files(format);
    const change = CHANGES(format)[name];
    if (change === undefined) throw new RangeError(name);
    const options: Omit<RunJobOptions, 'engine'> = { input, output, inputFormat: format, generate: { order } };
    const error = await failure(runJob({ engine: new Answers(() => change.change(input)), ...options }));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(change.message);
    expect(error.message).toContain(`${input}: the input `);

    const done = readResults(output);
    expect(done.length).toBeGreaterThanOrEqual(CHANGED_AT);
    if (change.readToTheEnd) expect(done).toHaveLength(ROWS);
    else expect(done.length).toBeLessThan(ROWS);
    // Nothing but answers to what was counted, whatever was there meanwhile.
    expect(done.filter(({ index, text }) => !text.includes(`FIRST ${String(index).padStart(5, '0')}`))).toEqual([]);

    // One that has only got more rows is gone on with as it is, too.
    if (name !== 'appended to') {
      const refused = await failure(runJob({ engine: new Answers(), ...options, resume: true }));
      expect(refused).toBeInstanceOf(UsageError);
      expect(refused.message).toContain('differs from the one that began it in the input');
      expect(readResults(output)).toEqual(done);
    }

    writeFileSync(input, whole(format));
    expect(await runJob({ engine: new Answers(), ...options, resume: true })).toMatchObject({
      rows: ROWS,
      kept: done.length,
      done: ROWS - done.length,
    });
    expect(byIndex(readResults(output)).map(({ index, text }) => [index, text.slice(0, 11)])).toEqual(
      Array.from({ length: ROWS }, (_, row) => [row, `FIRST ${String(row).padStart(5, '0')}`]),
    );
  });

  test('what a resumed run skips is read, and counts', async () => {
    const { input, output } = files();
    const first = new AbortController();
    await failure(
      runJob({ engine: new Answers(() => first.abort(), 800), input, output, generate: { signal: first.signal } }),
    );
    const kept = readResults(output).length;
    expect(kept).toBeGreaterThan(700);
    // Between the counting and the reading of the resumed run, in a row that is done.
    const engine = new Answers();
    const generate = engine.generate.bind(engine);
    engine.generate = (rows, options) => {
      writeFileSync(input, whole().replace('first 00050', 'other 00050'));
      return generate(rows, options);
    };
    const error = await failure(runJob({ engine, input, output, resume: true }));
    expect(error.message).toMatch(/changed during the run: found other bytes after byte 0,/);
    expect(readResults(output)).toHaveLength(kept);
  });

  test('touched, saved again, given other permissions or moved away: no matter', async () => {
    for (const change of [
      (input: string) => utimesSync(input, new Date(), new Date()),
      (input: string) => writeFileSync(input, readFileSync(input)),
      (input: string) => chmodSync(input, 0o600),
      (input: string) => rmSync(input),
    ]) {
      const { input, output } = files();
      expect(await runJob({ engine: new Answers(() => change(input)), input, output })).toMatchObject({
        rows: ROWS,
        done: ROWS,
      });
      expect(readResults(output)).toHaveLength(ROWS);
    }
  });

  test('changed after all of it was read, before the last result', async () => {
    for (const [change, how] of [
      [(input: string) => appendFileSync(input, '{"prompt":"late"}\n'), 'grew'],
      [(input: string) => truncateSync(input, 10), 'shrank'],
    ] as const) {
      const { input, output } = files();
      const error = await failure(runJob({ engine: new Answers(() => change(input), ROWS), input, output }));
      expect(error.message).toContain(how);
      expect(readResults(output)).toHaveLength(ROWS);
    }
  });
});

test('an engine that ends before the input does is an error, not rows that are missing', async () => {
  const { input, output } = files();
  const engine = {
    async *generate(rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult> {
      for await (const { id = 0, index = 0 } of rows) {
        yield {
          id,
          index,
          text: '',
          tokens: [],
          finishReason: 'stop',
          usage: { promptTokens: 1, completionTokens: 0 },
        };
        if (index === 4) return;
      }
    },
  };
  await expect(runJob({ engine, input, output })).rejects.toThrow('the engine ended with row 5, before the input did');
  expect(readResults(output)).toHaveLength(5);
});

test('lines of blanks alone are counted as they are read: not, however long', async () => {
  const input = path('blank');
  writeFileSync(input, `${' '.repeat(10_000)}\n{"prompt":"a"}\n\n\t\r\n{"prompt":"b"}`);
  expect(await runJob({ engine: new Answers(), input, output: path('blank.out') })).toMatchObject({ rows: 2, done: 2 });
});
