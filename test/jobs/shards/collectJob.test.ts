import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob, type RunJobOptions } from '../../../src/jobs/runJob.js';
import { collectJob, type CollectJobOptions } from '../../../src/jobs/shards/collectJob.js';
import { type Shard, shardPath } from '../../../src/jobs/shards/Shard.js';
import type { RowInput } from '../../../src/Row.js';
import { failureOf } from '../formats/support.js';
import { readResults, temporaryFolder, writeLines } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { inTurn } from '../../support/tries.js';

const path = temporaryFolder();

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let folders = 0;

function folder(): string {
  const made = path(String((folders += 1)));
  mkdirSync(made);
  return made;
}

type Run = Omit<RunJobOptions, 'engine' | 'shard' | 'output' | 'errors'>;
const run = (
  options: Omit<RunJobOptions, 'engine'>,
  stub: ConstructorParameters<typeof StubEngine>[0] = {},
): ReturnType<typeof runJob> => runJob({ engine: new StubEngine(stub), ...options });

/** Every shard of a run, the last one first. */
async function shards(
  options: Omit<RunJobOptions, 'engine'> & { output: string },
  count: number,
  rows = 1,
): Promise<string[]> {
  const parts = Array.from({ length: count }, (_, index) => shardPath(options.output, { index, count }));
  for (let index = count - 1; index >= 0; index -= 1) {
    const shard: Shard = { index, count, rows };
    const { errors } = options;
    await run({
      ...options,
      shard,
      output: parts[index] ?? '',
      ...(errors !== undefined && { errors: shardPath(errors, shard) }),
    });
  }
  return parts;
}

const PROMPTS = Array.from({ length: 47 }, (_, at) => ({
  id: at % 9 === 8 ? `row-${at - 5}` : `row-${at}`,
  prompt: `prompt ${at}, "quoted"`,
  extra: at * 1.5,
}));

/** Rows, some of them bad, some of them with an id that stood before. */
function writeJsonl(file: string): void {
  writeLines(file, [...PROMPTS.slice(0, 20), 'no row', '', ...PROMPTS.slice(20)]);
}

function writeCsv(file: string): void {
  writeFileSync(
    file,
    `\ufeffid;prompt;extra\r\n${PROMPTS.map(({ id, extra }, at) => (at === 11 ? 'short\r\n' : `${id};"one ""prompt"""\t${at};${extra}\r\n`)).join('')}`,
  );
}

function writeParquet(file: string): void {
  writeFileSync(
    file,
    Buffer.from(
      parquetWriteBuffer({
        columnData: [
          { name: 'id', data: PROMPTS.map(({ id }) => id), type: 'STRING' },
          { name: 'prompt', data: PROMPTS.map(({ prompt }, at) => (at === 30 ? null : prompt)), type: 'STRING' },
          { name: 'extra', data: PROMPTS.map(({ extra }) => extra), type: 'DOUBLE' },
        ],
        rowGroupSize: 10,
      }),
    ),
  );
}

function writeRequests(file: string): void {
  writeLines(
    file,
    PROMPTS.map(({ id, prompt }) => ({
      custom_id: id,
      method: 'POST',
      url: '/v1/completions',
      body: { model: 'm', prompt },
    })),
  );
}

interface Kind {
  readonly input: string;
  readonly write: (file: string) => void;
  readonly output: string;
  readonly errors?: string;
  readonly options?: Omit<Run, 'input'>;
  /** Whether the output has something of the input. */
  readonly joins?: boolean;
}

const KINDS: readonly Kind[] = [
  { input: 'in.jsonl', write: writeJsonl, output: 'out.jsonl' },
  { input: 'in.jsonl', write: writeJsonl, output: 'out.jsonl', options: { carryFields: true }, errors: 'failed.jsonl' },
  { input: 'in.jsonl', write: writeJsonl, output: 'out.jsonl.gz' },
  {
    input: 'in.jsonl',
    write: writeJsonl,
    output: 'out.csv',
    options: { carryFields: true, resultColumns: { text: 'answer' } },
  },
  { input: 'in.jsonl', write: writeJsonl, output: 'out.parquet', options: { carryFields: true } },
  { input: 'in.txt', write: writeJsonl, output: 'out.txt' },
  { input: 'in.csv', write: writeCsv, output: 'out.csv', joins: true, errors: 'failed.csv' },
  { input: 'in.csv', write: writeCsv, output: 'out.tsv.gz', joins: true },
  { input: 'in.csv', write: writeCsv, output: 'out.parquet', joins: true },
  { input: 'in.csv', write: writeCsv, output: 'out.jsonl' },
  { input: 'in.parquet', write: writeParquet, output: 'out.parquet', joins: true },
  { input: 'in.parquet', write: writeParquet, output: 'out.csv', joins: true, errors: 'failed.parquet' },
  { input: 'in.jsonl', write: writeRequests, output: 'out.jsonl', joins: true, errors: 'failed.jsonl' },
];

/** How many shards, and how many rows in a row one of them gets. */
const NUMBERS = [
  [1, 1],
  [3, 1],
  [5, 4],
] as const;

describe('one output of all parts, byte for byte what one run writes', () => {
  test.each(KINDS.map((kind, nth) => ({ ...kind, nth })))(
    '$input to $output',
    async ({ input: name, write, output: outputName, errors: errorsName, options = {}, joins = false, nth }) => {
      const place = folder();
      const input = `${place}/${name}`;
      write(input);
      const whole = {
        output: `${place}/whole-${outputName}`,
        ...(errorsName !== undefined && { errors: `${place}/whole-${errorsName}` }),
      };
      const all = {
        output: `${place}/${outputName}`,
        ...(errorsName !== undefined && { errors: `${place}/${errorsName}` }),
      };
      const { rows, failed } = await run({ input, ...options, ...whole });
      // A line of text is a prompt, whatever it is.
      expect(failed > 0).toBe(name !== 'in.txt');
      for (const [count, dealt] of inTurn(NUMBERS, nth)) {
        const parts = await shards({ input, ...options, ...all }, count, dealt);
        if (joins)
          expect((await failureOf(collectJob(all))).message).toContain(
            'input: found none, expected the input of the shards',
          );
        // With or without the input, where it is not needed.
        const given = joins || count === 3 ? { input } : {};
        expect(await collectJob({ ...all, ...given })).toEqual({ shards: count, rows, results: rows, failed });
        expect(readFileSync(all.output)).toEqual(readFileSync(whole.output));
        if (all.errors !== undefined) expect(readFileSync(all.errors)).toEqual(readFileSync(whole.errors ?? ''));
        for (const part of parts)
          for (const file of readdirSync(place)) if (`${place}/${file}`.startsWith(part)) rmSync(`${place}/${file}`);
        for (const file of Object.values(all)) rmSync(file);
        expect(readdirSync(place).filter((file) => /lock|tmp/.test(file))).toEqual([]);
      }
    },
  );

  test('parts of a stream have what goes beside the results; the input is not asked for, and not taken', async () => {
    const place = folder();
    const rows = (): RowInput[] =>
      PROMPTS.map(({ id, prompt, extra }) => ({
        id,
        prompt,
        carry: extra % 2 === 0 ? { extra } : { extra, other: 'x' },
      }));
    for (const name of ['out.csv', 'out.parquet', 'out.jsonl']) {
      const output = `${place}/${name}`;
      await run({ input: rows(), output: `${place}/whole-${name}` });
      for (let index = 0; index < 4; index += 1)
        await run({ input: rows(), output: shardPath(output, { index, count: 4 }), shard: { index, count: 4 } });
      writeJsonl(`${place}/in.jsonl`);
      expect((await failureOf(collectJob({ output, input: `${place}/in.jsonl` }))).message).toContain(
        'the shards read a stream',
      );
      await collectJob({ output });
      expect(readFileSync(output)).toEqual(readFileSync(`${place}/whole-${name}`));
    }
  });

  test('parts of a stream with a table have its columns in their order, and its dialect', async () => {
    const place = folder();
    const output = `${place}/out.csv`;
    const csv = `\ufeffid;2019;prompt\r\n${PROMPTS.map(({ prompt }, at) => `${at};x;"${prompt.replaceAll('"', '')}"\r\n`).join('')}`;
    const rows = (): AsyncGenerator<RowInput> =>
      readRows(new Blob([csv]).stream(), { format: 'csv', carryFields: true });
    await run({ input: rows(), inputFormat: 'csv', output: `${place}/whole.csv` });
    for (let index = 0; index < 2; index += 1) {
      const shard = { index, count: 2 };
      await run({ input: rows(), inputFormat: 'csv', output: shardPath(output, shard), shard });
    }
    await collectJob({ output });
    expect(readFileSync(output, 'utf8')).toMatch(/^\ufeffid;2019;prompt;text;/);
    expect(readFileSync(output)).toEqual(readFileSync(`${place}/whole.csv`));
  });

  test('several inputs; parts of lines of JSON make a table; parts that finish out of order are put in order', async () => {
    const place = folder();
    const inputs = [`${place}/a.csv`, `${place}/b.csv`];
    for (const input of inputs) writeCsv(input);
    const input = `${place}/*.csv`;
    const [output, whole] = [`${place}/out.jsonl`, `${place}/whole.parquet`];
    await run({ input: inputs, output: whole });
    for (let index = 0; index < 3; index += 1)
      await run(
        {
          input: inputs,
          output: shardPath(output, { index, count: 3 }),
          shard: { index, count: 3, rows: 2 },
          generate: { order: 'completion' },
        },
        { delay: (row) => (row % 5) * 2 },
      );
    await collectJob({ output: `${place}/all.parquet`, parts: `${place}/out-*.jsonl`, input });
    expect(readFileSync(`${place}/all.parquet`)).toEqual(readFileSync(whole));
  });

  test('the parts in any order, under any name, in other folders', async () => {
    const place = folder();
    const [input, output] = [`${place}/in.jsonl`, `${place}/out.jsonl`];
    writeJsonl(input);
    await run({ input, output: `${place}/whole.jsonl` });
    const parts = await shards({ input, output }, 3);
    const moved = parts.map((part, at) => {
      mkdirSync(`${place}/machine-${at}`);
      const copy = `${place}/machine-${at}/mine.jsonl`;
      for (const ending of ['', '.job.json']) copyFileSync(`${part}${ending}`, `${copy}${ending}`);
      return copy;
    });
    await collectJob({ output, parts: [moved[1] ?? '', moved[2] ?? '', moved[0] ?? ''] });
    expect(readFileSync(output)).toEqual(readFileSync(`${place}/whole.jsonl`));
  });

  test('no rows at all; fewer rows than shards', async () => {
    const place = folder();
    for (const [name, lines] of [
      ['none', []],
      ['two', PROMPTS.slice(0, 2)],
    ] as const) {
      const [input, output] = [`${place}/${name}.jsonl`, `${place}/${name}-out.csv`];
      writeLines(input, lines);
      await run({ input, output: `${place}/${name}-whole.csv` });
      await shards({ input, output }, 4);
      expect(await collectJob({ output })).toMatchObject({ rows: lines.length, shards: 4 });
      expect(readFileSync(output)).toEqual(readFileSync(`${place}/${name}-whole.csv`));
    }
  });
});

describe('what does not go together is refused by name, and nothing is written', () => {
  async function parts(count = 4): Promise<{ place: string; input: string; output: string; parts: string[] }> {
    const place = folder();
    const [input, output] = [`${place}/in.jsonl`, `${place}/out.jsonl`];
    writeJsonl(input);
    return { place, input, output, parts: await shards({ input, output }, count) };
  }

  async function refusal(options: CollectJobOptions): Promise<string> {
    const error = await failureOf(collectJob(options));
    expect(error).toBeInstanceOf(JobFileError);
    expect(existsSync(options.output)).toBe(false);
    expect(existsSync(`${options.output}.lock`)).toBe(false);
    return error.message;
  }

  test('missing parts', async () => {
    const {
      output,
      parts: [, second = '', , fourth = ''],
    } = await parts();
    for (const part of [second, fourth]) for (const ending of ['', '.job.json']) rmSync(part + ending);
    expect(await refusal({ output })).toBe(
      `${output}: cannot be collected: shards 1, 3 of 4 are missing: expected out-00001-of-00004.jsonl, out-00003-of-00004.jsonl with what stands beside it; run each, \`--shard K/4\``,
    );
  });

  test('no parts; parts of several numbers of shards; a part without its record; what is no part', async () => {
    const { place, input, output } = await parts(2);
    expect(await refusal({ output: `${place}/other.jsonl` })).toContain(
      'found no part of it, expected files such as other-00000-of-00002.jsonl beside it',
    );
    await run({ input, output: shardPath(output, { index: 0, count: 3 }), shard: { index: 0, count: 3 } });
    expect(await refusal({ output })).toContain(
      'found parts of 2 and of 3 shards, expected those of one job; `parts` says which, e.g. out-*-of-00002.jsonl',
    );
    expect(await refusal({ output, parts: `${place}/out-*-of-*.jsonl` })).toMatch(
      /is of another job than .*: it differs in shard \(was .*"count":2.*is .*"count":3/,
    );
    await run({ input, output: `${place}/all.jsonl` });
    expect(await refusal({ output, parts: `${place}/all.jsonl` })).toContain(
      'all.jsonl.job.json: found the record of a job over all rows, expected that of a shard',
    );
    expect(await refusal({ output, parts: input })).toContain('expected the record of a shard beside its part');
  });

  test('a shard that was cut off, and one that has more to do', async () => {
    const {
      input,
      output,
      parts: [first = '', second = ''],
    } = await parts(2);
    for (const ending of ['', '.job.json']) rmSync(first + ending);
    await expect(run({ input, output: first, shard: { index: 0, count: 2 } }, { failAt: 8, width: 1 })).rejects.toThrow(
      'failed as asked',
    );
    expect(await refusal({ output })).toContain(
      `shards 0 of 2 are not complete (${first}): run each to its end, with \`resume\``,
    );
    await run({ input, output: first, shard: { index: 0, count: 2 }, resume: true });
    // More rows: what was whole is not any more, as soon as one of them has been gone on with.
    appendFileSync(input, '{"prompt":"more"}\n{"prompt":"and more"}\n');
    await run({ input, output: second, shard: { index: 1, count: 2 }, resume: true });
    expect(await refusal({ output })).toMatch(
      /is of another job than .*: it differs in the input \(had \d+ bytes, has \d+\)/,
    );
    await run({ input, output: first, shard: { index: 0, count: 2 }, resume: true });
    expect(await collectJob({ output })).toMatchObject({ rows: 50 });
    expect(readResults(output).map(({ index }) => index)).toEqual(Array.from({ length: 50 }, (_, at) => at));
  });

  test('the same shard twice; a part of other options, model, instruction set, input', async () => {
    const {
      place,
      input,
      output,
      parts: [first = '', second = '', third = ''],
    } = await parts(3);
    for (const ending of ['', '.job.json']) copyFileSync(first + ending, `${place}/copy.jsonl${ending}`);
    expect(await refusal({ output, parts: [first, second, third, `${place}/copy.jsonl`] })).toContain(
      `${first} and ${place}/copy.jsonl are both of shard 0, expected one of them`,
    );
    const other = async (options: Partial<RunJobOptions>): Promise<string> => {
      await run({ input, output: first, shard: { index: 0, count: 3 }, overwrite: true, ...options });
      return refusal({ output });
    };
    // The one that differs is the odd one, though it comes first.
    expect(await other({ generate: { maxNewTokens: 5 } })).toContain(
      `${first} is of another job than ${second}: it differs in maxNewTokens (was 128, is 5)`,
    );
    const amx = Object.assign(new StubEngine(), { resultIdentity: { instructionSet: 'amx' } });
    expect(await other({ engine: amx })).toContain('it differs in instructionSet (was not set, is "amx")');
    writeLines(`${place}/other.jsonl`, PROMPTS.slice(0, 5));
    expect(await other({ input: `${place}/other.jsonl` })).toContain('it differs in the input (had');
    expect(await other({ shard: { index: 0, count: 3, rows: 2 } })).toContain('"rows":2');
    expect(await other({ resultColumns: { text: 'answer' } })).toContain('it differs in how results are written');
    await run({ input, output: first, shard: { index: 0, count: 3 }, overwrite: true });
    expect(await collectJob({ output })).toMatchObject({ shards: 3 });
  });

  test('streams that were not the same for all', async () => {
    const place = folder();
    const output = `${place}/out.jsonl`;
    for (let index = 0; index < 2; index += 1)
      await run({
        input: PROMPTS.slice(0, 40 + index),
        output: shardPath(output, { index, count: 2 }),
        shard: { index, count: 2 },
      });
    expect(await refusal({ output })).toContain('it differs in the rows of the input (read 40, and 41)');
  });

  test('parts that are not what the shards left: cut, longer, another line, out of order, a line twice', async () => {
    const {
      output,
      parts: [first = ''],
    } = await parts(3);
    const content = readFileSync(first, 'utf8');
    const lines = content.split('\n');
    const [one = '', two = '', ...rest] = lines;
    for (const [damaged, message] of [
      [content.slice(0, -20), 'found its end, expected row'],
      [[one, ...rest].join('\n'), `found row 6 in line 2, expected row 3`],
      [[two, one, ...rest].join('\n'), 'found row 3 in line 1, expected row 0'],
      [[one, one, two, ...rest].join('\n'), 'found row 0 in line 2, expected more than row 0'],
      [`${content}${two.replace('"index":3', '"index":48')}\n`, 'found row 48 in line 17, expected no more rows'],
      [content.replace('PROMPT 3', 'PROMPT 4'), 'found its end, expected the bytes that its record tells of'],
      [[one, 'no result', ...rest].join('\n'), 'line 2: found something else than a result'],
      ['', 'found its end, expected row 0'],
    ] as const) {
      writeFileSync(first, damaged);
      const said = await refusal({ output });
      expect(said).toContain(message);
      expect(said).toContain(first);
    }
    rmSync(first);
    expect(await refusal({ output })).toContain(`${first}: cannot be read: no such file or folder`);
    writeFileSync(first, content);
    await collectJob({ output });
  });

  test('a record that says other things than records say', async () => {
    const {
      output,
      parts: [first = ''],
    } = await parts(2);
    const record = JSON.parse(readFileSync(`${first}.job.json`, 'utf8')) as { complete: object; options: object };
    for (const [changed, message] of [
      [{ ...record, complete: { ...record.complete, rows: -1 } }, 'complete: found something else than rows'],
      [
        { ...record, complete: { ...record.complete, written: { parts: [5], resultColumns: {} } } },
        'complete: found something else',
      ],
      [{ ...record, complete: { ...record.complete, table: { columns: [5] } } }, 'complete: found something else'],
      [
        { ...record, complete: { ...record.complete, table: { columns: ['a'], dialect: { delimiter: ',' } } } },
        'complete: found something else',
      ],
      [{ ...record, complete: 5 }, 'complete: found something else'],
      [
        { ...record, options: { ...record.options, shard: { index: 2, count: 2, rows: 1 } } },
        'expected that of a shard',
      ],
      [
        { ...record, options: { ...record.options, shard: { index: 0, count: 1e9, rows: 1 } } },
        'expected that of a shard',
      ],
      [{ ...record, complete: { ...record.complete, rows: 1e12 } }, 'it differs in the rows of the input'],
    ] as const) {
      writeFileSync(`${first}.job.json`, JSON.stringify(changed));
      expect(await refusal({ output })).toContain(message);
    }
  });

  test('another input than the shards read; an input that is not there', async () => {
    const place = folder();
    const [input, output] = [`${place}/in.csv`, `${place}/out.csv`];
    writeCsv(input);
    await shards({ input, output }, 2);
    appendFileSync(input, 'one;more;row\r\n');
    expect(await refusal({ output, input })).toMatch(
      /in\.csv: cannot be put beside the results of .*: it differs from what the shards read in the input \(had \d+ bytes/,
    );
    expect(await refusal({ output, input: `${place}/none.csv` })).toContain('no such file');
  });

  test('an output that exists, or that a job writes by itself, or that is a part', async () => {
    const {
      input,
      output,
      parts: [first = ''],
    } = await parts(2);
    await collectJob({ output });
    const error = await failureOf(collectJob({ output }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toBe(`${output} exists; \`overwrite\` begins anew`);
    await collectJob({ output, overwrite: true });
    await run({ input, output, overwrite: true });
    expect((await failureOf(collectJob({ output, overwrite: true }))).message).toContain(
      'found the record of a job that writes to',
    );
    expect(
      (await failureOf(collectJob({ output: first, parts: first.replace('00000', '*'), overwrite: true }))).message,
    ).toContain('found the record of a job');
    expect((await failureOf(collectJob({ output: '/dev/null' }))).message).toContain(
      'which is a device, expected a file',
    );
  });

  test('what would be written over its input, the record of a part, or itself', async () => {
    const {
      place,
      input,
      output,
      parts: [first = ''],
    } = await parts(2);
    const bytes = readFileSync(input);
    const record = readFileSync(`${first}.job.json`);
    const overwrite = true;
    const given = { parts: first.replace('00000', '*'), overwrite };
    for (const [options, words] of [
      [{ ...given, output: input, input }, 'output and input name the same file'],
      [{ ...given, output, errors: input, input }, 'errors and input name the same file'],
      [{ ...given, output: `${first}.job.json` }, 'the record of the part'],
      [{ ...given, output, errors: output }, 'output and errors name the same file'],
    ] as const) {
      const error = await failureOf(collectJob(options));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toContain(words);
    }
    expect(readFileSync(input)).toEqual(bytes);
    expect(readFileSync(`${first}.job.json`)).toEqual(record);
    expect(readdirSync(place).filter((file) => /lock|tmp/.test(file))).toEqual([]);
  });

  test('an abort: nothing is left', async () => {
    const { place, output } = await parts(2);
    const before = readdirSync(place);
    expect(await failureOf(collectJob({ output, signal: AbortSignal.abort() }))).toBeInstanceOf(InterruptedError);
    expect(readdirSync(place)).toEqual(before);
  });

  test('wrong arguments', async () => {
    await expect(collectJob({} as CollectJobOptions)).rejects.toThrow(
      "output: found undefined, expected a file's path",
    );
    await expect(collectJob({ output: 'a', parts: [] })).rejects.toThrow(
      "parts: found an array of 0, expected a file's path, or several",
    );
    await expect(collectJob({ output: 'a', part: 'b' } as CollectJobOptions)).rejects.toThrow(
      'found the unknown "part"',
    );
  });
});

describe('a shard is a job of its own', () => {
  test('it does its rows alone, knows ids of all, and goes on with no other shard', async () => {
    const place = folder();
    const [input, output] = [`${place}/in.jsonl`, `${place}/part.jsonl`];
    writeLines(
      input,
      ['a', 'b', 'c', 'd', 'e', 'f'].map((prompt) => ({ id: prompt === 'f' ? 'a' : prompt, prompt })),
    );
    const engine = new StubEngine();
    expect(await runJob({ engine, input, output, shard: { index: 1, count: 2 } })).toMatchObject({
      rows: 3,
      done: 3,
      failed: 1,
    });
    expect(engine.admitted).toEqual(['b', 'd', 'a']);
    expect(readResults(output).map(({ index, text, error }) => [index, text || error?.code])).toEqual([
      [1, 'B'],
      [3, 'D'],
      [5, 'duplicate-id'],
    ]);
    for (const shard of [{ index: 0, count: 2 }, { index: 1, count: 3 }, { index: 1, count: 2, rows: 4 }, undefined]) {
      const error = await failureOf(run({ input, output, resume: true, ...(shard && { shard }) }));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toContain(
        'cannot be resumed, as this run differs from the one that began it in shard (was {"index":1,"count":2,"rows":1}, is',
      );
    }
    expect(await run({ input, output, resume: true, shard: { index: 1, count: 2, rows: 1 } })).toMatchObject({
      done: 0,
      kept: 3,
    });
  });

  test('a share of its own rows may fail', async () => {
    const place = folder();
    const input = `${place}/in.jsonl`;
    writeLines(
      input,
      Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? 'bad' : { prompt: 'good' })),
    );
    expect(
      await run({ input, output: `${place}/a.jsonl`, shard: { index: 1, count: 2 }, maxErrors: '10%' }),
    ).toMatchObject({ failed: 0 });
    const output = shardPath(`${place}/b.jsonl`, { index: 0, count: 2 });
    expect(await run({ input, output, shard: { index: 0, count: 2 }, maxErrors: '10%' })).toMatchObject({
      failed: 2,
      stopped: true,
    });
    expect((await failureOf(collectJob({ output: `${place}/b.jsonl` }))).message).toContain(
      'shards 0 of 2 are not complete',
    );
  });
});

test('memory does not grow with the rows', async () => {
  const place = folder();
  const [input, output, count, rows] = [`${place}/in.jsonl`, `${place}/out.jsonl`, 4, 200_000];
  writeLines(input, PROMPTS.slice(0, 4));
  const line = (index: number): string =>
    `{"id":"row-${index}","index":${index},"text":"answer ${index}","tokens":[1,2,3],"finishReason":"stop","usage":{"promptTokens":1,"completionTokens":3}}\n`;
  // As shards of so many rows would have left them.
  for (const [shard, part] of (await shards({ input, output }, count)).entries()) {
    const content = Array.from({ length: rows / count }, (_, at) => line(at * count + shard)).join('');
    writeFileSync(part, content);
    const record = JSON.parse(readFileSync(`${part}.job.json`, 'utf8')) as { complete: object };
    const complete = { ...record.complete, rows, sha256: createHash('sha256').update(content).digest('hex') };
    writeFileSync(`${part}.job.json`, JSON.stringify({ ...record, complete }));
  }
  const heaps: number[] = [];
  let asked = 0;
  // It is asked before each row.
  const { signal } = new AbortController();
  Object.defineProperty(signal, 'aborted', {
    get: () => {
      if (asked % (rows / 10) === 0) {
        // A second one waits for the thread that frees what the first let go of.
        collectGarbage();
        collectGarbage();
        const { heapUsed, arrayBuffers } = process.memoryUsage();
        heaps.push(heapUsed + arrayBuffers);
      }
      asked += 1;
      return false;
    },
  });
  expect(await collectJob({ output, signal })).toEqual({ shards: count, rows, results: rows, failed: 0 });
  expect(heaps.length).toBeGreaterThanOrEqual(10);
  // Pieces are held: two of 256 KiB of each part, and those of a MiB that are written. The results are 24 MB, more as
  // objects.
  expect(Math.max(...heaps.slice(-3)) - Math.min(...heaps.slice(2, 5))).toBeLessThan(12 * 2 ** 20);
  const content = readFileSync(output, 'utf8');
  expect(content).toHaveLength(
    Array.from({ length: rows }, (_, index) => line(index).length).reduce((a, b) => a + b, 0),
  );
  for (const index of [0, 1, 99_999, rows - 1])
    expect(content).toContain(`\n${line(index)}`.slice(index === 0 ? 1 : 0));
});
