import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { TaskError } from '../../src/errors/engineErrors.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { Job } from '../../src/jobs/Job.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { GenerateOptions, RowInput, RowResult } from '../../src/Row.js';
import { byIndex, readResults, temporaryFolder, writeLines } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
let names = 0;

/** Fresh names for an input of these lines and an output. */
function files(lines: readonly unknown[]): { input: string; output: string } {
  names += 1;
  const input = path(`in-${names}.jsonl`);
  writeLines(input, lines);
  return { input, output: path(`out-${names}.jsonl`) };
}

async function failure(run: Promise<unknown>): Promise<Error> {
  try {
    await run;
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected the job to fail');
}

/** The stub engine takes whatever a prompt is for text. */
async function* stringPrompts(rows: AsyncIterable<RowInput>): AsyncGenerator<RowInput> {
  for await (const row of rows) yield 'prompt' in row ? ({ ...row, prompt: 'as text' } as RowInput) : row;
}

const prompts = (count: number): RowInput[] =>
  Array.from({ length: count }, (_, at) => ({ id: `row-${at}`, prompt: `prompt ${at}` }));

describe('a job', () => {
  test('writes one line a row, in CONTRACT order of keys', async () => {
    const { input, output } = files([{ id: 'a', prompt: 'x', source: { page: 1 } }, '', 'no json', { prompt: 'y' }]);
    const summary = await runJob({ engine: new StubEngine(), input, output, carryFields: true });
    expect(summary).toEqual({ rows: 3, done: 3, failed: 1, kept: 0, keptFailed: 0 });
    const lines = readFileSync(output, 'utf8').split('\n');
    expect(lines[0]).toBe(
      '{"id":"a","index":0,"text":"X","tokens":[88],"finishReason":"stop","usage":{"promptTokens":1,"completionTokens":1},"row":{"source":{"page":1}}}',
    );
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({
      id: 3,
      index: 1,
      text: '',
      tokens: [],
      finishReason: 'error',
      error: { code: 'invalid-json' },
    });
    expect(JSON.parse(lines[2] ?? '')).toMatchObject({ id: 4, index: 2, text: 'Y' });
    expect(lines).toHaveLength(4);
    expect(readdirSync(path('.')).filter((name) => name.startsWith('out-1'))).toEqual([
      'out-1.jsonl',
      'out-1.jsonl.job.json',
    ]);
  });

  test('an id that an earlier row has is an error of the later row, over a resume too', async () => {
    const { input, output } = files([
      { id: 'a', prompt: 'x' },
      { id: 2.5, prompt: 'y' },
      { id: 'a', prompt: 'z', k: 1 },
      { prompt: 'w' },
      { id: 4, prompt: 'v' },
      { id: '4', prompt: 'u' },
    ]);
    await runJob({ engine: new StubEngine(), input, output, carryFields: true });
    const whole = readFileSync(output, 'utf8');
    // Nobody gave row 4 its id, which is the number of its line.
    expect(readResults(output).map(({ id, error }) => [id, error?.code])).toEqual([
      ['a', undefined],
      [2.5, undefined],
      ['a', 'duplicate-id'],
      [4, undefined],
      [4, undefined],
      ['4', undefined],
    ]);
    expect(readResults(output)[2]).toMatchObject({
      id: 'a',
      index: 2,
      row: { k: 1 },
      error: { message: 'id: found "a", which an earlier row has' },
    });
    truncateSync(output, whole.indexOf('\n') + 1);
    await runJob({ engine: new StubEngine(), input, output, carryFields: true, resume: true });
    expect(readFileSync(output, 'utf8')).toBe(whole);
  });

  test('a bad line costs no good row its result, and two rows of one id are told apart by a resumed run, wherever it was cut', async () => {
    const { input, output } = files([
      { id: 1, prompt: 'a' },
      'garbage',
      { id: 2, prompt: 'good' },
      { id: 5, prompt: 'b' },
      'garbage',
      { prompt: 'c' },
      { id: 6, prompt: 'd' },
      { id: 2, prompt: 'again' },
      { id: 2 },
    ]);
    await runJob({ engine: new StubEngine(), input, output });
    const whole = readFileSync(output);
    expect(readResults(output).map(({ id, error }) => [id, error?.code])).toEqual([
      [1, undefined],
      [2, 'invalid-json'],
      [2, undefined],
      [5, undefined],
      [5, 'invalid-json'],
      [6, undefined],
      [6, undefined],
      [2, 'duplicate-id'],
      [2, 'no-prompt'],
    ]);
    for (let cut = 0; cut <= whole.length; cut += 1) {
      if (cut < whole.length && whole[cut - 1] !== 0x0a) continue;
      writeFileSync(output, whole.subarray(0, cut));
      await runJob({ engine: new StubEngine(), input, output, resume: true });
      expect(readFileSync(output, 'utf8')).toBe(whole.toString());
    }
    await runJob({ engine: new StubEngine(), input, output, resume: true, retryErrors: true });
    expect(byIndex(readResults(output))).toEqual(
      whole
        .toString()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as unknown),
    );
  });

  test('odd rows of an iterable are error rows, and the rest is done', async () => {
    const { output } = files([]);
    const input = [
      { prompt: 'a' },
      undefined,
      null,
      { id: 1n, prompt: 'b' },
      { id: {}, prompt: 'b' },
      {
        get prompt() {
          throw new Error('torn');
        },
      },
      { prompt: 'c', error: null },
      { prompt: 'd' },
    ] as RowInput[];
    expect(await runJob({ engine: new StubEngine(), input, output })).toMatchObject({ rows: 8, done: 8, failed: 5 });
    expect(readResults(output).map(({ id, text, error }) => [id, text, error?.message])).toEqual([
      [1, 'A', undefined],
      [2, '', 'found undefined, expected an object with one of prompt, messages and tokens'],
      [3, '', 'found null, expected an object with one of prompt, messages and tokens'],
      [4, '', 'id: found 1n, expected a string or a finite number'],
      [5, '', 'id: found an empty object, expected a string or a finite number'],
      [6, '', 'the row cannot be read: torn'],
      [7, 'C', undefined],
      [8, 'D', undefined],
    ]);
    expect(await runJob({ engine: new StubEngine(), input, output, resume: true })).toMatchObject({ kept: 8, done: 0 });
    const first = [{ prompt: 1n }, { prompt: 'b' }] as unknown as RowInput[];
    expect(
      await runJob({
        engine: { generate: (rows) => new StubEngine().generate(stringPrompts(rows)) },
        input: first,
        output,
        overwrite: true,
      }),
    ).toMatchObject({ rows: 2, done: 2 });
  });

  test('rows from an iterable without ids, results to a stream', async () => {
    const output = new PassThrough();
    const text = (async (): Promise<string> => {
      let all = '';
      for await (const chunk of output.setEncoding('utf8')) all += String(chunk);
      return all;
    })();
    const summary = await runJob({ engine: new StubEngine(), input: [{ prompt: 'a' }, { prompt: 'b' }], output });
    output.end();
    expect(summary).toMatchObject({ rows: 2, done: 2 });
    expect(
      (await text)
        .split('\n')
        .slice(0, 2)
        .map((line) => JSON.parse(line) as unknown),
    ).toMatchObject([
      { id: 1, index: 0, text: 'A' },
      { id: 2, index: 1, text: 'B' },
    ]);
  });

  test('an empty input gives an empty output', async () => {
    const { input, output } = files([]);
    expect(await runJob({ engine: new StubEngine(), input, output })).toEqual({
      rows: 0,
      done: 0,
      failed: 0,
      kept: 0,
      keptFailed: 0,
    });
    expect(readFileSync(output, 'utf8')).toBe('');
    expect(await runJob({ engine: new StubEngine(), input, output, resume: true })).toMatchObject({ rows: 0 });
  });

  test('carried fields that JSON cannot write become an error of their row', async () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    const { output } = files([]);
    const summary = await runJob({
      engine: new StubEngine(),
      input: [{ prompt: 'a', carry: cycle }, { prompt: 'b', carry: { big: 1n } }, { prompt: 'c' }],
      output,
    });
    expect(summary).toMatchObject({ done: 3, failed: 2 });
    expect(readResults(output).map(({ error }) => error?.code)).toEqual(['invalid-row', 'invalid-row', undefined]);
  });

  test('an engine that fails leaves the rows before, and an engine that fails at once leaves nothing changed', async () => {
    const { input, output } = files(prompts(10));
    expect(
      (await failure(runJob({ engine: new StubEngine({ failAt: 6, width: 2 }), input, output }))).message,
    ).toContain('the stub failed');
    const indexes = readResults(output).map(({ index }) => index);
    expect(indexes.length).toBeGreaterThan(0);
    expect(indexes).toEqual(indexes.map((_, at) => at));
    expect(existsSync(`${output}.lock`)).toBe(false);

    const fresh = files(prompts(3));
    const refusing = {
      generate: (): never => {
        throw new UsageError('no');
      },
    };
    expect((await failure(runJob({ engine: refusing, ...fresh }))).message).toBe('no');
    expect([fresh.output, `${fresh.output}.job.json`, `${fresh.output}.lock`].map((name) => existsSync(name))).toEqual([
      false,
      false,
      false,
    ]);
  });

  test('an engine that loses a row or answers one twice is an error, not a silent gap', async () => {
    const engine = new StubEngine();
    const losing = {
      async *generate(rows: AsyncIterable<RowInput>) {
        for await (const result of engine.generate(rows)) if (result.index !== 1) yield result;
      },
    };
    const doubling = {
      async *generate(rows: AsyncIterable<RowInput>) {
        for await (const result of engine.generate(rows)) {
          yield result;
          yield result;
        }
      },
    };
    expect((await failure(runJob({ engine: losing, ...files(prompts(3)) }))).message).toContain('1 rows unanswered');
    expect((await failure(runJob({ engine: doubling, ...files(prompts(3)) }))).message).toContain(
      'answered row 0 with id "row-0", which it does not have',
    );
  });

  test('an abort ends the run although the input sleeps; what was finished is written', async () => {
    const { output } = files([]);
    const controller = new AbortController();
    const sleeping = new PassThrough();
    sleeping.write('{"prompt":"a"}\n{"prompt":"b"}\n');
    const stub = new StubEngine({ width: 1 });
    const engine = {
      async *generate(rows: AsyncIterable<RowInput>, options?: GenerateOptions): AsyncGenerator<RowResult> {
        for await (const result of stub.generate(rows, options)) {
          if (result.index === 1) setImmediate(() => controller.abort());
          yield result;
        }
      },
    };
    const error = await failure(
      runJob({ engine, input: readRows(sleeping), output, generate: { signal: controller.signal } }),
    );
    expect(error).toBeInstanceOf(InterruptedError);
    expect(readResults(output)).toHaveLength(2);
    expect(existsSync(`${output}.lock`)).toBe(false);
  });

  test('a read error in mid-input is a JobFileError, and what was finished is written', async () => {
    const { output } = files([]);
    async function* failing(): AsyncGenerator<Buffer> {
      for (let at = 0; at < 20; at += 1) yield Buffer.from(`{"prompt":"p${at}"}\n`);
      throw Object.assign(new Error('read'), { code: 'EIO' });
    }
    const error = await failure(runJob({ engine: new StubEngine({ width: 2 }), input: readRows(failing()), output }));
    expect(error).toBeInstanceOf(JobFileError);
    expect(readResults(output).length).toBeGreaterThanOrEqual(18);
  });
});

describe('what is refused', () => {
  const begun = async (change: Partial<RunJobOptions> = {}): Promise<{ input: string; output: string }> => {
    const names = files(prompts(4));
    await runJob({ engine: new StubEngine(), ...names, ...change });
    truncateSync(names.output, readFileSync(names.output, 'utf8').indexOf('\n') + 1);
    return names;
  };
  const untouched = async (names: { output: string }, run: Promise<unknown>): Promise<string> => {
    const before = readFileSync(names.output, 'utf8');
    const error = await failure(run);
    expect(error).toBeInstanceOf(UsageError);
    expect(readFileSync(names.output, 'utf8')).toBe(before);
    expect(existsSync(`${names.output}.lock`)).toBe(false);
    return error.message;
  };

  test('an existing output, unless it is resumed or overwritten', async () => {
    const names = await begun();
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names }))).toContain(
      '`resume` goes on with it, `overwrite` begins anew',
    );
    await runJob({ engine: new StubEngine(), ...names, overwrite: true, generate: { maxNewTokens: 7 } });
    expect(readResults(names.output)).toHaveLength(4);
    await runJob({ engine: new StubEngine(), ...names, resume: true, generate: { maxNewTokens: 7 } });
  });

  test('options that contradict each other', async () => {
    const names = await begun();
    expect(
      await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true, overwrite: true })),
    ).toContain('contradict');
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names, retryErrors: true }))).toContain(
      '`retryErrors` goes with `resume`',
    );
    expect(
      await untouched(
        names,
        runJob({ engine: new StubEngine(), input: names.output, output: names.output, overwrite: true }),
      ),
    ).toContain('input and output name the same file');
    expect(
      (await failure(runJob({ engine: new StubEngine(), input: names.input, output: new PassThrough(), resume: true })))
        .message,
    ).toContain('`resume` needs');
  });

  test.each<[string, Partial<RunJobOptions>]>([
    ['temperature (was 0, is 0.5)', { generate: { temperature: 0.5 } }],
    ['maxNewTokens (was 128, is 3)', { generate: { maxNewTokens: 3 } }],
    ['seed (was 0, is 1)', { generate: { seed: 1 } }],
    ['stop (was [], is ["x"])', { generate: { stop: ['x'] } }],
    ['logprobs (was null, is 2)', { generate: { logprobs: 2 } }],
    ['precision (was not set, is "float32")', { identity: { precision: 'float32' } }],
    ['inputFormat (was "jsonl", is "text")', { inputFormat: 'text' }],
    ['carryFields (was false, is true)', { carryFields: true }],
  ])('a resumed run with another %s', async (difference, change) => {
    const names = await begun();
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true, ...change }))).toContain(
      difference,
    );
  });

  test('defaults given explicitly, order and progress make no difference', async () => {
    const names = await begun();
    const summary = await runJob({
      engine: new StubEngine(),
      ...names,
      resume: true,
      generate: {
        temperature: 0,
        maxNewTokens: 128,
        topP: 1,
        topK: 0,
        minP: 0,
        seed: 0,
        stop: [],
        order: 'completion',
        onProgress: () => undefined,
      },
    });
    expect(summary).toMatchObject({ kept: 1, done: 3 });
  });

  test('a resumed run with another input: a row changed, one added, one id changed in a stream', async () => {
    const names = await begun();
    const original = readFileSync(names.input, 'utf8');
    writeFileSync(names.input, original.replace('prompt 3', 'prompt X'));
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true }))).toContain('the input');
    writeFileSync(names.input, `{"prompt":"more"}\n${original}`);
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true }))).toMatch(
      /the input \(had \d+ bytes, has \d+\)/,
    );
    writeFileSync(names.input, original);
    expect(
      await untouched(
        names,
        runJob({ engine: new StubEngine(), input: prompts(4), output: names.output, resume: true }),
      ),
    ).toContain('was a file, is a stream');

    const { output } = files([]);
    const stream = (rows: RowInput[]): RunJobOptions => ({
      engine: new StubEngine(),
      input: rows,
      output,
      resume: true,
    });
    await runJob(stream(prompts(4)));
    expect(
      await untouched({ output }, runJob(stream([{ id: 'row-0', prompt: 'other' }, ...prompts(4).slice(1)]))),
    ).toContain('the input');
    expect(await untouched({ output }, runJob(stream([...prompts(3), { id: 'other', prompt: 'prompt 3' }])))).toContain(
      'row 3 of the input has the id "other"',
    );
    expect(await untouched({ output }, runJob(stream(prompts(3))))).toContain(
      'the output holds 1 results of other rows',
    );
    expect(await runJob(stream(prompts(6)))).toMatchObject({ rows: 6, kept: 4, done: 2 });
  });

  test('a resumed run with another model, told by content and not by place', async () => {
    const [one, two] = [path('model-a.gguf'), path('model-b.gguf')];
    writeFileSync(one, 'weights');
    writeFileSync(two, 'other weights');
    const folder = path('moved');
    const moved = `${folder}/model-a.gguf`;
    mkdirSync(folder);
    writeFileSync(moved, 'weights');
    const names = await begun({ modelFiles: [one] });
    expect(
      await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true, modelFiles: [two] })),
    ).toContain('the model (was model-a.gguf, is model-b.gguf)');
    writeFileSync(one, 'Weights');
    expect(
      await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true, modelFiles: [one] })),
    ).toContain('differs from the one that began it in the model (model-a.gguf) by its contents;');
    expect(await runJob({ engine: new StubEngine(), ...names, resume: true, modelFiles: [moved] })).toMatchObject({
      done: 3,
    });
  });

  test('an output without a record, one that holds something else, one that holds a row twice', async () => {
    const { input, output } = files(prompts(2));
    writeFileSync(output, '{"id":1,"index":0,"finishReason":"stop"}\n');
    expect(await untouched({ output }, runJob({ engine: new StubEngine(), input, output, resume: true }))).toContain(
      'there is no',
    );
    const names = await begun();
    appendFileSync(names.output, 'not a result\n');
    const foreign = await failure(runJob({ engine: new StubEngine(), ...names, resume: true }));
    expect(foreign).toBeInstanceOf(JobFileError);
    expect(foreign.message).toMatch(/line 2: found something else than a result.*`overwrite: true` begins anew$/);
    const twice = await begun();
    appendFileSync(twice.output, readFileSync(twice.output));
    expect((await failure(runJob({ engine: new StubEngine(), ...twice, resume: true }))).message).toContain(
      'index 0 stands twice',
    );
  });

  test.each([
    '{"format":"spillway-job","ver',
    '{"format":"spillway-job","version":3}',
    '{"format":"spillway-job","version":3,"run":"1","journal":"output","model":[null],"engine":{},"options":{},"input":{}}',
    '{"format":"spillway-job","version":3,"run":"1","journal":"elsewhere","model":[],"engine":{},"options":{},"input":{}}',
  ])('a damaged record is refused with the remedy, and begun anew: %s', async (record) => {
    const names = await begun();
    writeFileSync(`${names.output}.job.json`, record);
    const error = await failure(runJob({ engine: new StubEngine(), ...names, resume: true }));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(
      /^[^\n]*\.job\.json: found something else than the record of a job, expected [^\n]*; `overwrite: true` begins anew$/,
    );
    expect(await runJob({ engine: new StubEngine(), ...names, overwrite: true })).toMatchObject({ done: 4 });
  });

  test.each([1, 2])('a record of version %d, which does not say enough to go on', async (version) => {
    const names = await begun();
    writeFileSync(
      `${names.output}.job.json`,
      `{"format":"spillway-job","version":${version},"model":[],"engine":{},"options":{},"input":{}}`,
    );
    const error = await failure(runJob({ engine: new StubEngine(), ...names, resume: true }));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(
      /found a record of version [12], by an earlier Spillway, expected version 3: .*; finish it with that one; `overwrite: true` begins anew$/,
    );
    expect(await runJob({ engine: new StubEngine(), ...names, overwrite: true })).toMatchObject({ done: 4 });
  });

  test('a resumed run by an engine of another identity, before there is an engine and after; one that is not what was said of it', async () => {
    const engine = (resultIdentity: object): RunJobOptions['engine'] =>
      Object.assign(new StubEngine(), { resultIdentity });
    const [one, other] = [
      { model: 'm', precision: 'default', gpu: { name: 'a' } },
      { model: 'm', precision: 'default', gpu: { name: 'b' } },
    ];
    const names = await begun({ engine: engine(one) });
    const difference = 'differs from the one that began it in gpu (was {"name":"a"}, is {"name":"b"});';
    expect(await untouched(names, runJob({ engine: engine(other), ...names, resume: true }))).toContain(difference);
    expect(await untouched(names, Job.open({ ...names, resume: true, resultIdentity: { gpu: other.gpu } }))).toContain(
      difference,
    );
    const refusedBy = async (stub: RunJobOptions['engine'], resultIdentity?: object): Promise<string> => {
      await using job = await Job.open({ ...names, resume: true, ...(resultIdentity && { resultIdentity }) });
      return (await failure(job.run(stub))).message;
    };
    expect(await refusedBy(engine(other))).toContain(difference);
    expect(await refusedBy(engine(other), { gpu: one.gpu })).toContain(
      'the engine is not the one that the job was opened for: it differs in gpu',
    );
    expect(await untouched(names, runJob({ engine: new StubEngine(), ...names, resume: true }))).toContain(
      'differs from the one that began it in model (was "m", is not set)',
    );
    expect(await runJob({ engine: engine(one), ...names, resume: true })).toMatchObject({ kept: 1, done: 3 });
  });

  test.each<[string, Partial<RunJobOptions>]>([
    ['.job.json', {}],
    ['.job.json', { resume: true }],
    ['.job.json', { overwrite: true }],
    ['.lock', {}],
    ['.lock', { overwrite: true }],
    ['.retry.tmp', {}],
    ['.retry.tmp', { resume: true }],
  ])('a file of somebody else that stands at OUTPUT%s, with %j', async (suffix, change) => {
    for (const there of [false, true]) {
      const { input, output } = files(prompts(2));
      if (there && Object.keys(change).length > 0) await runJob({ engine: new StubEngine(), input, output });
      const foreign = `${output}${suffix}`;
      for (const content of [
        '{"id":1,\n"mine":true}',
        'mine\nof two lines',
        ...(suffix === '.lock' ? ['', '{"pid":"x"}'] : []),
      ]) {
        writeFileSync(foreign, content);
        const old = new Date(Date.now() - 3_600_000);
        utimesSync(foreign, old, old);
        if (suffix === '.retry.tmp' && content.startsWith('{"id":')) continue; // it might be ours
        const error = await failure(runJob({ engine: new StubEngine(), input, output, ...change }));
        expect(error).toBeInstanceOf(UsageError);
        expect(error.message).toMatch(/^[^\n]*: found "[^\n]*, expected no file or /);
        expect(error.message).toContain(foreign);
        expect(readFileSync(foreign, 'utf8')).toBe(content);
      }
    }
  });

  test("files that would overwrite each other: the job's own beside its output count, and all of the model", async () => {
    const lines = prompts(1)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join('');
    const clash = async (input: string, output: string, more: Partial<RunJobOptions> = {}): Promise<string> => {
      const message = await untouched({ output: input }, runJob({ engine: new StubEngine(), input, output, ...more }));
      expect(existsSync(output) && output.endsWith('data')).toBe(false);
      return message;
    };
    for (const [suffix, what] of [
      ['.job.json', 'record'],
      ['.lock', 'lock'],
      ['.retry.tmp', 'temporary file'],
    ] as const) {
      writeFileSync(path(`data${suffix}`), lines);
      expect(await clash(path(`data${suffix}`), path('data'))).toContain(
        `input and the ${what} of output name the same file`,
      );
      rmSync(path(`data${suffix}`));
    }
    const { input } = files(prompts(1));
    const weights = path('weights');
    mkdirSync(weights);
    for (const name of ['model.safetensors', 'config.json']) {
      writeFileSync(`${weights}/${name}`, 'weights');
      symlinkSync(`${weights}/${name}`, path(`link-${name}`));
      for (const output of [`${weights}/${name}`, path(`link-${name}`)]) {
        expect(
          await untouched(
            { output },
            runJob({
              engine: new StubEngine(),
              input,
              output,
              overwrite: true,
              modelFiles: [`${weights}/model.safetensors`],
            }),
          ),
        ).toContain('the model and output name the same file');
      }
    }
  });

  test('a second job on one output while the first runs', async () => {
    const { input, output } = files(prompts(3));
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
    const first = runJob({ engine: waiting, input, output });
    while (!existsSync(`${output}.lock`)) await new Promise((resolve) => setTimeout(resolve, 1));
    const second = await failure(runJob({ engine: new StubEngine(), input, output, resume: true }));
    expect(second).toBeInstanceOf(UsageError);
    expect(second.message).toContain(`is in use by process ${process.pid}`);
    open();
    await first;
    expect(readResults(output)).toHaveLength(3);
  });

  test('files that are missing', async () => {
    const { input, output } = files([]);
    const missing = await failure(runJob({ engine: new StubEngine(), input: path('none.jsonl'), output }));
    expect(missing).toBeInstanceOf(JobFileError);
    expect(missing.message).toContain('none.jsonl: cannot be read: no such file');
    expect((await failure(runJob({ engine: new StubEngine(), input: path('.'), output }))).message).toContain(
      'it is a folder',
    );
    expect(
      (await failure(runJob({ engine: new StubEngine(), input, output: path('none/out.jsonl') }))).message,
    ).toContain('there is no folder');
    expect(existsSync(output)).toBe(false);
  });
});

describe('resume', () => {
  test('--retry-errors does the error rows again, and only those', async () => {
    const { output } = files([]);
    const rows = (good: boolean): RowInput[] => [
      { id: 'a', prompt: 'x' },
      good ? { id: 'b', prompt: 'y' } : { id: 'b', error: { code: 'memory', message: 'no room' } },
      { id: 'c', prompt: 'z' },
    ];
    await runJob({ engine: new StubEngine(), input: rows(false), output });
    const kept = await runJob({ engine: new StubEngine(), input: rows(false), output, resume: true });
    expect(kept).toEqual({ rows: 3, done: 0, failed: 0, kept: 3, keptFailed: 1 });
    appendFileSync(output, '{"id":"torn');
    const engine = new StubEngine();
    const retried = await runJob({ engine, input: rows(true), output, resume: true, retryErrors: true });
    expect(retried).toEqual({ rows: 3, done: 1, failed: 0, kept: 2, keptFailed: 0 });
    expect(engine.admitted).toEqual(['b']);
    expect(readResults(output).map(({ index, text }) => [index, text])).toEqual([
      [0, 'X'],
      [1, 'Y'],
      [2, 'Z'],
    ]);
  });

  test('after a kill at any byte of the output: the same rows, each once, and only the missing ones are done again', async () => {
    const lines = [
      '',
      ...prompts(9).map((row, at) => ({ ...row, prompt: 'é"\\\n'.repeat(at) + String(at) })),
      'broken',
      { id: 'row-3', prompt: 'double' },
    ];
    const { input, output } = files(lines);
    const options = { input, output, generate: { order: 'completion' as const } };
    let seed = 1;
    const delay = (): number => (seed = (seed * 16807) % 2147483647) % 3;
    await runJob({ engine: new StubEngine({ delay }), ...options });
    const whole = readFileSync(output);
    const expected = byIndex(readResults(output));
    expect(expected).toHaveLength(11);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: whole.length }),
        fc.constantFrom('input' as const, 'completion' as const),
        async (cut, order) => {
          writeFileSync(output, whole.subarray(0, cut));
          const wholeLines = whole.subarray(0, cut).filter((byte) => byte === 0x0a).length;
          const engine = new StubEngine();
          const summary = await runJob({ engine, ...options, resume: true, generate: { order } });
          expect(summary).toMatchObject({ rows: 11, kept: wholeLines, done: 11 - wholeLines });
          expect(engine.admitted).toHaveLength(11 - wholeLines);
          if (order === 'input') {
            expect(readResults(output)).toEqual(expected);
            return;
          }
          expect(byIndex(readResults(output))).toEqual(expected);
          expect(
            readFileSync(output)
              .subarray(0, whole.subarray(0, cut).lastIndexOf(0x0a) + 1)
              .equals(whole.subarray(0, whole.subarray(0, cut).lastIndexOf(0x0a) + 1)),
          ).toBe(true);
        },
      ),
      { numRuns: 150 },
    );
  });

  test('what a run that failed had finished ahead of its turn is kept, and only what is missing is done again', async () => {
    const { input, output } = files(prompts(12));
    const finished = [0, 1, 4, 5, 9];
    const stub = new StubEngine({ width: 12 });
    const failing = {
      async *generate(rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult> {
        for await (const result of stub.generate(rows)) if (finished.includes(result.index)) yield result;
        throw new TaskError('load_weight', 'the disk fell off');
      },
    };
    expect(await failure(runJob({ engine: failing, input, output }))).toBeInstanceOf(TaskError);
    expect(readResults(output).map(({ index }) => index)).toEqual(finished);
    const missing = [2, 3, 6, 7, 8, 10, 11];
    const engine = new StubEngine();
    expect(await runJob({ engine, input, output, resume: true })).toMatchObject({ rows: 12, kept: 5, done: 7 });
    expect(engine.admitted).toEqual(missing.map((at) => `row-${at}`));
    expect(readResults(output).map(({ index }) => index)).toEqual(Array.from({ length: 12 }, (_, at) => at));
  });

  test('rows that wait for their turn in the file are put in order by the run that completes the job, through a link, and not in order of completion', async () => {
    const { input, output } = files(prompts(9));
    await runJob({ engine: new StubEngine(), input, output });
    const whole = readFileSync(output);
    const lines = whole.toString().split('\n').slice(0, -1);
    const scattered = [7, 0, 1, 8, 3].map((at) => `${lines[at] ?? ''}\n`).join('');
    const link = `${output}.link`;
    symlinkSync(output, link);
    writeFileSync(output, scattered);
    await failure(runJob({ engine: new StubEngine({ failAt: 4 }), input, output: link, resume: true }));
    expect(readFileSync(output, 'utf8').startsWith(scattered)).toBe(true);
    await runJob({ engine: new StubEngine(), input, output: link, resume: true });
    expect(readFileSync(output).equals(whole)).toBe(true);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    writeFileSync(output, scattered);
    await runJob({ engine: new StubEngine(), input, output: link, resume: true, generate: { order: 'completion' } });
    expect(readFileSync(output, 'utf8').startsWith(scattered)).toBe(true);
    expect(existsSync(`${output}.retry.tmp`)).toBe(false);
  });

  test('a torn last line is cut off even if the resumed run gets nowhere', async () => {
    const { input, output } = files(prompts(4));
    await runJob({ engine: new StubEngine(), input, output });
    truncateSync(output, readFileSync(output).length - 10);
    await failure(runJob({ engine: new StubEngine({ failAt: 3 }), input, output, resume: true }));
    expect(readResults(output)).toHaveLength(3);
  });

  test('a resumed job in order of input equals the uninterrupted one byte for byte', async () => {
    const { input, output } = files(prompts(12));
    await runJob({ engine: new StubEngine(), input, output });
    const whole = readFileSync(output);
    for (const cut of [0, 1, 500, whole.length - 1, whole.length]) {
      writeFileSync(output, whole.subarray(0, cut));
      await runJob({ engine: new StubEngine(), input, output, resume: true });
      expect(readFileSync(output).equals(whole)).toBe(true);
    }
  });
});
