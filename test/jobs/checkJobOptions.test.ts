import { existsSync } from 'node:fs';
import { PassThrough, Writable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { of } from 'rxjs';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { checkJobOptions } from '../../src/jobs/checkJobOptions.js';
import { Job } from '../../src/jobs/Job.js';
import type { JobOptions, RowGenerator } from '../../src/jobs/JobOptions.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { RowInput } from '../../src/Row.js';
import { temporaryFolder } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
const output = path('out.jsonl');
const input: RowInput[] = [{ prompt: 'a' }];
const engine = new StubEngine();

async function refusal(run: () => Promise<unknown>): Promise<string> {
  const error: unknown = await run().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UsageError);
  expect(existsSync(output)).toBe(false);
  expect(existsSync(`${output}.lock`)).toBe(false);
  return (error as UsageError).message;
}

describe('what a JavaScript caller hands over is refused in words', () => {
  test.each<[unknown, string]>([
    [undefined, 'options: found undefined, expected an object'],
    [5, 'options: found 5, expected an object'],
    [{ output }, "input: found undefined, expected a file's path or an iterable of rows"],
    [{ input: null, output: null }, 'input: found null, expected'],
    [{ input: 5, output }, 'input: found 5, expected'],
    [
      { input: of({ prompt: 'a' }), output },
      "input: found an Observable, which cannot be pulled, expected a file's path or an iterable of rows; give pulled(rows$)",
    ],
    [{ input }, "output: found undefined, expected a file's path, a Writable or a table of a database"],
    [{ input, output: {} }, 'output: found an empty object, expected'],
    [{ input, output: 5 }, 'output: found 5, expected'],
    [{ input, output, resume: 'yes' }, 'resume: found "yes", expected true or false'],
    [{ input, output, retryError: true }, 'options: found the unknown "retryError", expected any of input, '],
    [{ input, output, inputFormat: 'xml' }, 'inputFormat: found "xml", expected one of auto, jsonl, text, '],
    [{ input, output, columns: { promt: 'x' } }, 'columns: found the unknown "promt", expected any of id, prompt'],
    [{ input, output, columns: { prompt: '' } }, 'columns.prompt: found "", expected the name of a column'],
    [
      { input, output, resultColumns: { answer: 'x' } },
      'resultColumns: found the unknown "answer", expected any of id, sample, text',
    ],
    [
      { input, output, delimiter: '""' },
      'delimiter: found "\\"\\"", expected one character that is no quote and no line break',
    ],
    [{ input, output, errors: 1 }, "errors: found 1, expected a file's path"],
    [
      { input, output, maxErrors: -1 },
      'maxErrors: found -1, expected a whole number of at least 0, or a share of the rows from 0% to 100%',
    ],
    [{ input, output, maxErrors: '101%' }, 'maxErrors: found "101%"'],
    [{ input, output, modelFiles: 'model.gguf' }, 'modelFiles: found "model.gguf", expected an array of paths'],
    [{ input, output, identity: 'x' }, 'identity: found "x", expected an object'],
    [{ input, output, generate: 7 }, 'generate: found 7, expected an object'],
    [
      { input, output, generate: { promptTemplate: 'no field' } },
      'generate.promptTemplate: found "no field", expected a text with {{field}} where a value of the row goes',
    ],
    [{ input, output, generate: { tools: [1] } }, 'tools: found an array of 1'],
    [
      { input, output, embed: { templateArgs: { messages: [] } } },
      'templateArgs: found "messages", expected variables',
    ],
    [
      { input, output, classify: { labels: ['a', 'a'] } },
      'labels[1]: found "a" a second time, expected texts that differ',
    ],
    [{ input, output, score: { completions: [] } }, 'completions: found 0 texts, expected 1 to 1024'],
  ])('options %#: %s', async (options, words) => {
    expect(await refusal(() => Job.open(options as JobOptions))).toContain(words);
    const whole = typeof options === 'object' ? { ...options, engine } : options;
    expect(await refusal(() => runJob(whole as RunJobOptions))).toContain(words);
  });

  test.each<[unknown, string]>([
    [undefined, 'engine: found undefined, expected an Engine, or an object that generates rows as one does'],
    [5, 'engine: found 5, expected an Engine'],
    [{}, 'engine: found an empty object without a method generate'],
    [{ generate: true }, 'engine.generate: found true, expected a function'],
  ])('engine %p: %s', async (given, words) => {
    expect(await refusal(() => runJob({ engine: given as RowGenerator, input, output }))).toContain(words);
    const job = await Job.open({ input, output: path('other.jsonl'), overwrite: true });
    await expect(job.run(given as RowGenerator)).rejects.toThrow(words);
    // A job that was not begun can still be run.
    expect(await job.run(engine)).toMatchObject({ done: 1 });
    await job.close();
  });
});

describe('options by themselves, as a form or a flag has them', () => {
  test.each<[Partial<JobOptions>]>([
    [{}],
    [{ delimiter: ';' }],
    [{ maxErrors: '5%' }],
    [{ shard: { index: 7, count: 8 } }],
    [{ resultColumns: { text: 'Answer' } }],
    [{ classify: { labels: ['yes', 'no'] } }],
    [
      {
        generate: {
          promptTemplate: '{{text}}',
          tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
          templateArgs: { a: 1 },
        },
      },
    ],
    [JSON.parse('{"generate":{"tools":null,"templateArgs":null}}') as Partial<JobOptions>],
  ])('%j is fine', (options) => {
    expect(() => checkJobOptions(options)).not.toThrow();
  });

  test('result columns are judged beside what answers are held to', () => {
    const resultColumns = { city: 'Town' };
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    expect(() =>
      checkJobOptions({ resultColumns, generate: { responseFormat: { type: 'json_schema', schema } } }),
    ).not.toThrow();
    expect(() => checkJobOptions({ resultColumns })).toThrow(
      /^resultColumns: found the unknown "city", expected any of id, sample, text/,
    );
  });

  test('what is wrong is told as for a whole job', () => {
    expect(() => checkJobOptions({ shard: { index: 8, count: 8 } })).toThrow(
      new UsageError(
        'shard.index: found 8, expected a whole number from 0 to 7, as there are 8 shards, counted from 0',
      ),
    );
    expect(() => checkJobOptions({ retryError: true } as never)).toThrow('options: found the unknown "retryError"');
  });
});

test('a job ends where its stream throws instead of failing, and says why', async () => {
  const throwing = new Writable({
    write: () => {
      throw new Error('no such luck');
    },
  });
  const error: unknown = await runJob({ engine, input, output: throwing }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(JobFileError);
  expect(String(error)).toContain('output: cannot be written: no such luck');
  expect(await runJob({ engine, input, output: new PassThrough() })).toMatchObject({ done: 1 });
});
