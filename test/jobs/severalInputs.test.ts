import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { JobSummary } from '../../src/jobs/JobOptions.js';
import { failureOf } from './formats/support.js';
import { readResults, temporaryFolder } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
let names = 0;

/** A folder with these files, and what runs a job over them. */
function folder(files: Readonly<Record<string, string | Uint8Array>>): {
  write: (name: string, content: string | Uint8Array) => void;
  at: (name: string) => string;
  run: (options: Partial<RunJobOptions>) => Promise<JobSummary>;
} {
  names += 1;
  const place = path(`folder-${names}`);
  mkdirSync(place);
  const at = (name: string): string => `${place}/${name}`;
  const write = (name: string, content: string | Uint8Array): void => writeFileSync(at(name), content);
  for (const [name, content] of Object.entries(files)) write(name, content);
  return {
    write,
    at,
    run: (options) => runJob({ engine: new StubEngine(), input: at('in-*'), output: at('out.jsonl'), ...options }),
  };
}

const texts = (file: string): string[] => readResults(file).map(({ text }) => text);

test.each<[string, Partial<RunJobOptions>, string]>([
  ['in-*', { output: 'in-out.csv' }, 'output: found'],
  ['*.jsonl', { output: 'out.csv' }, 'the journal of output: found'],
  ['*.json*', { output: 'out.csv' }, 'output: found'],
  ['{in,bad}-*', { output: 'out.csv', errors: 'bad-1.jsonl' }, 'errors: found'],
])('what a pattern (%s) would read when the run goes on is refused at first', async (pattern, files, words) => {
  const { at, run } = folder({ 'in-1.jsonl': '{"prompt":"a"}\n' });
  const paths = Object.fromEntries(Object.entries(files).map(([name, file]) => [name, at(file as string)]));
  const error = await failureOf(run({ input: at(pattern), ...paths }));
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toContain(words);
  expect(error.message).toContain(`which the input's pattern ${at(pattern)} stands for, too`);
  // What stands elsewhere, or is called otherwise, is fine.
  expect(await run({ input: at('in-*.jsonl') })).toMatchObject({ done: 1 });
});

describe('several files', () => {
  test('a pattern stands for its files in the order of their names; one index over all, ids are looked for in all', async () => {
    const { at, run } = folder({
      'in-2.jsonl': '{"id":"c","prompt":"c"}\n',
      'in-10.jsonl.gz': gzipSync('{"id":"a","prompt":"a"}\n{"id":"c","prompt":"b"}\n'),
      'other.jsonl': '{}',
    });
    expect(await run({})).toMatchObject({ rows: 3, failed: 1 });
    expect(readResults(at('out.jsonl')).map(({ id, index, error }) => [id, index, error?.code])).toEqual([
      ['a', 0, undefined],
      ['c', 1, undefined],
      ['c', 2, 'duplicate-id'],
    ]);
  });

  test('files by their paths, in that order; a name with the characters of a pattern is a name where it is there', async () => {
    const { at, run } = folder({
      'in-[1].jsonl': '{"prompt":"one"}\n',
      'in-1.jsonl': '{"prompt":"two"}\n',
      b: '{"prompt":"three"}',
    });
    await run({ input: [at('b'), at('in-[1].jsonl'), at('b')] });
    expect(texts(at('out.jsonl'))).toEqual(['THREE', 'ONE']);
  });

  test('tables of the same columns, each in its dialect', async () => {
    const { at, run } = folder({ 'in-1.csv': 'prompt,k\na,"1"\n', 'in-2.csv': 'prompt;k\r\nb;2\r\n' });
    await run({ output: at('out.csv') });
    expect(readFileSync(at('out.csv'), 'utf8').split('\n').slice(1, 3)).toEqual([
      'a,"1",A,stop,,,1,1',
      'b,2,B,stop,,,1,1',
    ]);
  });

  test.each<[string, Readonly<Record<string, string>>, object, string, typeof JobFileError | typeof UsageError]>([
    ['no file', {}, {}, 'in-*: found no file of that name, and none that it is a pattern for', JobFileError],
    [
      'one that is not there',
      { 'in-1.csv': 'prompt\na\n' },
      { input: ['no-such-file.csv'] },
      'no-such-file.csv: cannot be read: no such file',
      JobFileError,
    ],
    [
      'other columns',
      { 'in-1.csv': 'prompt,a\n1,2\n', 'in-2.csv': 'prompt,b\n1,2\n' },
      {},
      'in-2.csv: found the column "b" where the first file has "a"',
      JobFileError,
    ],
    [
      'a column less',
      { 'in-1.csv': 'prompt,a\n1,2\n', 'in-2.csv': 'prompt\n1\n' },
      {},
      'in-2.csv: found no column where the first file has "a"',
      JobFileError,
    ],
    [
      'several formats',
      { 'in-1.csv': 'prompt\na\n', 'in-2.jsonl': '{"prompt":"b"}\n' },
      {},
      'expected inputs of one format',
      UsageError,
    ],
  ])('%s: one error before anything is written', async (_, files, options, words, kind) => {
    const { at, run } = folder(files);
    const error = await failureOf(run({ output: at('out.csv'), ...options }));
    expect(error).toBeInstanceOf(kind);
    expect(error.message).toContain(words);
  });

  test('an output among the inputs is refused, at first and when it is there', async () => {
    const { at, run, write } = folder({ 'in-1.jsonl': '{"prompt":"a"}\n' });
    const words = "which the input's pattern";
    expect((await failureOf(run({ output: at('in-2.jsonl') }))).message).toContain(words);
    write('in-2.jsonl', '');
    expect((await failureOf(run({ output: at('in-2.jsonl'), overwrite: true }))).message).toContain(words);
    expect((await failureOf(run({ input: at('in-1.jsonl'), output: at('in-1.jsonl') }))).message).toContain(
      'input and output name the same file',
    );
  });
});

describe('an input that has grown between runs', () => {
  test.each([
    ['lines of JSON', 'in-1.jsonl', '{"prompt":"a"}\n{"prompt":"b"}\n', '{"prompt":"c"}\n'],
    ['whose last line had no end', 'in-1.jsonl', '{"prompt":"a"}\n{"prompt":"b"}', '\n{"prompt":"c"}'],
    ['a table', 'in-1.csv', 'prompt,k\na,1\nb,2\n', 'c,3\n'],
    ['prompts', 'in-1.txt', 'a\nb\n', 'c\n'],
    ['a table without rows', 'in-1.csv', 'prompt,k\n', 'a,1\nb,1\nc,1\n'],
  ])('%s: what is new is done, what was there is kept', async (_, name, before, more) => {
    const { at, run } = folder({ [name]: before });
    const rows = (await run({ outputFormat: 'jsonl' })).done;
    appendFileSync(at(name), more);
    expect(await run({ outputFormat: 'jsonl', resume: true })).toMatchObject({ rows: 3, kept: rows, done: 3 - rows });
    expect(texts(at('out.jsonl'))).toEqual(['A', 'B', 'C']);
    // The record now tells of all of it.
    expect(await run({ outputFormat: 'jsonl', resume: true })).toMatchObject({ kept: 3, done: 0 });
  });

  test('also while the first run is not through', async () => {
    const { at, run } = folder({ 'in-1.csv': `prompt\n${'x\n'.repeat(20)}` });
    await failureOf(run({ output: at('out.csv'), engine: new StubEngine({ failAt: 11 }) }));
    appendFileSync(at('in-1.csv'), 'y\n'.repeat(5));
    const { kept, done } = await run({ output: at('out.csv'), resume: true });
    expect(kept).toBeGreaterThan(0);
    expect(kept + done).toBe(25);
    expect(
      readFileSync(at('out.csv'), 'utf8')
        .split('\n')
        .slice(1, -1)
        .map((line) => line[0])
        .join(''),
    ).toBe('x'.repeat(20) + 'y'.repeat(5));
  });

  test('files behind those that there were, and lines of the last one', async () => {
    const { at, run, write } = folder({ 'in-1.jsonl': '{"prompt":"a"}\n', 'in-2.jsonl': '{"prompt":"b"}\n' });
    await run({});
    appendFileSync(at('in-2.jsonl'), '{"prompt":"c"}\n');
    write('in-3.jsonl', '{"prompt":"d"}\n');
    expect(await run({ resume: true })).toMatchObject({ rows: 4, kept: 2, done: 2 });
    expect(texts(at('out.jsonl'))).toEqual(['A', 'B', 'C', 'D']);
  });

  test.each<[string, Readonly<Record<string, string | Uint8Array>>, (files: ReturnType<typeof folder>) => void]>([
    [
      'a line that got longer',
      { 'in-1.jsonl': '{"prompt":"a"}\n{"prompt":"b"' },
      ({ at }) => appendFileSync(at('in-1.jsonl'), ',"k":1}\n'),
    ],
    [
      'lines before those that there were',
      { 'in-1.jsonl': '{"prompt":"a"}\n' },
      ({ write }) => write('in-1.jsonl', '{"prompt":"z"}\n{"prompt":"a"}\n'),
    ],
    [
      'fewer lines',
      { 'in-1.jsonl': '{"prompt":"a"}\n{"prompt":"b"}\n' },
      ({ write }) => write('in-1.jsonl', '{"prompt":"a"}\n'),
    ],
    [
      'a change at the same length',
      { 'in-1.jsonl': '{"prompt":"a"}\n' },
      ({ write }) => write('in-1.jsonl', '{"prompt":"b"}\n'),
    ],
    [
      'lines of a file that is not the last',
      { 'in-1.jsonl': '{"prompt":"a"}\n', 'in-2.jsonl': '{"prompt":"b"}\n' },
      ({ at }) => appendFileSync(at('in-1.jsonl'), '{"prompt":"c"}\n'),
    ],
    [
      'a file before those that there were',
      { 'in-2.jsonl': '{"prompt":"b"}\n' },
      ({ write }) => write('in-1.jsonl', '{"prompt":"a"}\n'),
    ],
    [
      'bytes of a compressed file',
      { 'in-1.jsonl.gz': gzipSync('{"prompt":"a"}\n') },
      ({ at }) => appendFileSync(at('in-1.jsonl.gz'), gzipSync('{"prompt":"b"}\n')),
    ],
  ])('%s: refused, and nothing is touched', async (_, files, change) => {
    const all = folder(files);
    await all.run({});
    const before = readFileSync(all.at('out.jsonl'));
    change(all);
    const error = await failureOf(all.run({ resume: true }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain('differs from the one that began it in the input');
    expect(readFileSync(all.at('out.jsonl'))).toEqual(before);
  });
});
