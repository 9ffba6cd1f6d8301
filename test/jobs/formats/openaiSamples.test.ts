import { readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { runJob } from '../../../src/jobs/runJob.js';
import { temporaryFolder, writeLines } from '../support/files.js';
import { SampledEngine } from '../support/sampledEngine.js';

const path = temporaryFolder();

const request = (id: string, n: number): object => ({
  custom_id: id,
  method: 'POST',
  url: '/v1/completions',
  body: { model: 'm', prompt: id, n },
});

interface Line {
  readonly custom_id: string;
  readonly response: {
    readonly status_code: number;
    readonly body: { readonly choices?: readonly { readonly index: number; readonly text: string }[] };
  };
}

/** Of each line: the request, the status, and what was answered. */
const linesOf = (text: string): unknown[] =>
  text
    .trimEnd()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { custom_id: id, response } = JSON.parse(line) as Line;
      return [id, response.status_code, response.body.choices?.map((choice) => `${choice.index}: ${choice.text}`)];
    });

describe('of a request for several choices there is one line', () => {
  test('an error where one of them failed, in the error file alone', async () => {
    const [input, output, errors] = [path('in.jsonl'), path('out.jsonl'), path('errors.jsonl')];
    writeLines(input, [request('a', 2), request('b', 2), request('c', 1)]);
    const engine = new SampledEngine({
      fate: (prompt, sample) => (prompt === 'b' && sample === 1 ? 'failed' : 'answered'),
    });
    expect(await runJob({ engine, input, output, errors })).toMatchObject({ done: 5, failed: 1 });
    expect(linesOf(readFileSync(output, 'utf8'))).toEqual([
      ['a', 200, ['0: A0', '1: A1']],
      ['c', 200, ['0: C']],
    ]);
    expect(linesOf(readFileSync(errors, 'utf8'))).toEqual([['b', 500, undefined]]);
    // Of other formats samples are lines of their own.
    const [table, failed] = [path('out.csv'), path('failed.csv')];
    await runJob({ engine, input, output: table, errors: failed, generate: { samples: 1 } });
    expect([table, failed].map((file) => readFileSync(file, 'utf8').trimEnd().split('\n').length)).toEqual([5, 2]);
  });

  test('in whatever order they come, of a stream', async () => {
    const input = path('streamed.jsonl');
    writeLines(input, [request('a', 3), request('b', 1), request('c', 2), request('d', 2)]);
    const output = new PassThrough();
    const written = textOf(output);
    // As they may be finished: the last samples of all rows first.
    const engine = new SampledEngine({
      refuses: (prompt) => prompt === 'd',
      sorted: (results) => results.sort((x, y) => (y.sample ?? 9) - (x.sample ?? 9) || y.index - x.index),
    });
    const summary = await runJob({
      engine,
      input,
      output,
      outputFormat: 'openai-batch',
      generate: { order: 'completion' },
    });
    output.end();
    expect(summary).toMatchObject({ rows: 4, done: 7, failed: 1 });
    expect(linesOf(await written)).toEqual([
      ['d', 500, undefined],
      ['b', 200, ['0: B']],
      ['c', 200, ['0: C0', '1: C1']],
      ['a', 200, ['0: A0', '1: A1', '2: A2']],
    ]);
  });

  test('where too many failed, what the engine has finished by then is written all the same', async () => {
    const input = path('stopped.jsonl');
    writeLines(input, [request('a', 2), request('b', 1)]);
    const output = new PassThrough();
    const written = textOf(output);
    const engine = new SampledEngine({
      refuses: (prompt) => prompt === 'b',
      sorted: (results) => results.sort((x, y) => (x.sample ?? 0) - (y.sample ?? 0)),
    });
    expect(await runJob({ engine, input, output, outputFormat: 'openai-batch', maxErrors: 0 })).toMatchObject({
      stopped: true,
      done: 3,
    });
    output.end();
    expect(linesOf(await written)).toEqual([
      ['b', 500, undefined],
      ['a', 200, ['0: A0', '1: A1']],
    ]);
  });

  test('where the engine fails, what there is of a row comes last', async () => {
    const input = path('failed.jsonl');
    writeLines(input, [request('a', 1), request('b', 3)]);
    const output = new PassThrough();
    const written = textOf(output);
    const engine = new SampledEngine({
      fate: (prompt, sample) => (prompt === 'b' && sample === 2 ? 'stopped' : 'answered'),
    });
    await expect(runJob({ engine, input, output, outputFormat: 'openai-batch' })).rejects.toThrow(
      'the stub was stopped',
    );
    output.end();
    expect(linesOf(await written)).toEqual([
      ['a', 200, ['0: A']],
      ['b', 200, ['0: B0', '1: B1']],
    ]);
  });
});
