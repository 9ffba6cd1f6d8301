// Files of rows at length: Parquet files that lie, millions of rows in bounded memory, and what pyarrow, pandas and
// DuckDB make of what comes out.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Changes the Parquet files of the tests and reads them: each has to be read, or refused by one error that names it, in bounded time and memory.
Then sends rows through a stand-in for the engine, from CSV, Parquet, lines of JSON and OpenAI Batch files into the same, each in a process of its own whose memory is looked at.
With --python, a Python that has pyarrow, pandas and duckdb, these read what comes out of the files of the tests, and compare types and values with what went in; and tables of answers and embeddings.
  --mutations N  (default 2000)
  --rows N       of each format (default 3000000)
  --memory N     most MiB that a process may have resident (default 400)
  --python PATH  (default: none)`;

const FIXTURES = join(ROOT, 'test/fixtures/parquet');
const JOBS = pathToFileURL(join(ROOT, 'dist/api/jobs.js')).href;
/** One mutation may take so long on a machine that does nothing else. */
const SLOW_MILLISECONDS = 5_000;
const RESULTS = ['text', 'finish_reason', 'error_code', 'error_message', 'prompt_tokens', 'completion_tokens'];
const FORMATS = ['rows.csv', 'rows.parquet', 'rows.jsonl', 'requests.jsonl'];

/** A stand-in for the engine: the answer is the prompt in capitals. */
class Echo {
  async *generate(rows, { signal } = {}) {
    let index = 0;
    for await (const { id, index: at = index, prompt = '', carry, error } of rows) {
      signal?.throwIfAborted();
      index += 1;
      const common = { id, index: at, ...(carry && { row: carry }) };
      if (error)
        yield {
          ...common,
          text: '',
          tokens: [],
          finishReason: 'error',
          usage: { promptTokens: 0, completionTokens: 0 },
          error,
        };
      else
        yield {
          ...common,
          text: prompt.slice(0, 40).toUpperCase(),
          tokens: [1, 2, 3],
          finishReason: 'stop',
          usage: { promptTokens: 4, completionTokens: 3 },
        };
    }
  }
}

function mutated(random, original) {
  const bytes = Buffer.from(original);
  const footer = bytes.readUInt32LE(bytes.length - 8) + 8;
  for (let changes = random.whole(1, 4); changes > 0; changes -= 1) {
    const at = random.chance(0.5) ? bytes.length - random.whole(1, footer) : random.whole(0, bytes.length - 1);
    bytes[at] = random.chance(0.5) ? random.whole(0, 255) : bytes[at] ^ (1 << random.whole(0, 7));
  }
  return random.chance(0.05) ? bytes.subarray(0, random.whole(0, bytes.length)) : bytes;
}

async function mutations(campaign) {
  const { readRows } = await import(JOBS);
  const originals = readdirSync(FIXTURES)
    .filter((name) => name.endsWith('.parquet'))
    .map((name) => readFileSync(join(FIXTURES, name)));
  const file = join(campaign.folder, 'mutated.parquet');
  for (let nth = 0; nth < campaign.number('mutations') && campaign.goesOn; nth += 1) {
    const bytes = mutated(campaign.random, campaign.random.pick(originals));
    writeFileSync(file, bytes);
    const began = performance.now();
    try {
      const rows = readRows(file, { carryFields: true });
      while ((await rows.next()).done !== true);
      campaign.count('read');
    } catch (error) {
      campaign.count('refused');
      if (error.code !== 'job-file' || !error.message.startsWith(`${file}: `)) {
        writeFileSync(join(campaign.folder, `bad-${nth}.parquet`), bytes);
        campaign.violation(`mutation ${nth} (bad-${nth}.parquet): an error of another kind`, error.stack);
      }
    }
    if (performance.now() - began > SLOW_MILLISECONDS)
      campaign.violation(`mutation ${nth} took ${(performance.now() - began).toFixed(0)} ms`);
    campaign.count('mutations');
  }
  const resident = process.resourceUsage().maxRSS / 1024;
  if (resident > campaign.number('memory')) campaign.violation(`reading mutations took ${resident.toFixed(0)} MiB`);
}

/** 60 bytes of prompt, two other columns. */
const lineOf = {
  csv: (at) => `${at},"prompt number ${at}, with some words that make it longer",note ${at % 97},${at / 4}\n`,
  jsonl: (at) =>
    `{"id":${at},"prompt":"prompt number ${at}, with some words that make it longer","note":"note ${at % 97}","price":${at / 4}}\n`,
  requests: (at) =>
    `{"custom_id":"r${at}","method":"POST","url":"/v1/completions","body":{"prompt":"prompt number ${at}, with some words that make it longer"}}\n`,
};

async function writeInput(file, rows) {
  const line = file.endsWith('.csv')
    ? lineOf.csv
    : basename(file).startsWith('requests')
      ? lineOf.requests
      : lineOf.jsonl;
  const stream = createWriteStream(file);
  if (file.endsWith('.csv')) stream.write('id,prompt,note,price\n');
  for (let at = 0; at < rows; at += 1000) {
    if (!stream.write(Array.from({ length: Math.min(1000, rows - at) }, (_, row) => line(at + row)).join('')))
      await once(stream, 'drain');
  }
  stream.end();
  await once(stream, 'finish');
}

/** What the process of one job does: its figures are its only line. */
async function oneJob([input, output]) {
  const { runJob } = await import(JOBS);
  const began = performance.now();
  // A table that has been through once has columns of results, which those of the second time stand beside.
  const again = input.endsWith('.parquet')
    ? { resultColumns: Object.fromEntries(RESULTS.map((name) => [name, `again_${name}`])) }
    : {};
  const summary = await runJob({ engine: new Echo(), input, output, ...again });
  process.stdout.write(
    JSON.stringify({
      ...summary,
      seconds: (performance.now() - began) / 1000,
      resident: process.resourceUsage().maxRSS / 1024,
    }),
  );
}

async function lengths(campaign) {
  const rows = campaign.number('rows');
  const folder = join(campaign.folder, 'long');
  mkdirSync(folder);
  const table = join(folder, 'rows.parquet');
  for (const name of FORMATS) if (name !== 'rows.parquet') await writeInput(join(folder, name), rows);
  const pairs = [
    [join(folder, 'rows.csv'), table],
    ...FORMATS.map((name) => [join(folder, name), join(folder, `out-${name}`)]),
  ];
  for (const [input, output] of pairs) {
    if (!campaign.goesOn) return;
    const { stdout, stderr, status } = spawnSync(
      process.execPath,
      [fileURLToPath(import.meta.url), '--one-job', input, output],
      { encoding: 'utf8', maxBuffer: 2 ** 24 },
    );
    const name = `${basename(input)} into ${basename(output)}`;
    if (status !== 0) {
      campaign.violation(`${name}: ended with ${status}`, stderr);
      continue;
    }
    const { done, failed, seconds, resident } = JSON.parse(stdout);
    campaign.set(
      name,
      `${done} rows in ${seconds.toFixed(1)} s (${Math.round(done / seconds)} rows/s), ${resident.toFixed(0)} MiB`,
    );
    campaign.count('jobs');
    if (done !== rows || failed > 0) campaign.violation(`${name}: ${done} rows, ${failed} of them errors`);
    if (resident > campaign.number('memory')) campaign.violation(`${name}: ${resident.toFixed(0)} MiB resident`);
  }
}

async function otherReaders(campaign, python) {
  const { runJob } = await import(JOBS);
  const folder = join(campaign.folder, 'others');
  mkdirSync(folder);
  for (const name of readdirSync(FIXTURES).filter((each) => each.endsWith('.parquet')))
    await runJob({
      engine: new Echo(),
      input: join(FIXTURES, name),
      output: join(folder, name),
      columns: { prompt: 'prompt' },
    });
  const { status, stdout, stderr } = spawnSync(
    python,
    [join(ROOT, 'scripts/nightly/lib/checkParquet.py'), FIXTURES, folder],
    { encoding: 'utf8' },
  );
  campaign.count('files read by others', stdout.split('\n').filter((line) => line.startsWith('ok ')).length);
  if (status !== 0) campaign.violation('other readers', `${stdout}${stderr}`);
  await answersRead(campaign, python);
}

/** Answers to a schema with a column a property, and embeddings. */
async function answersRead(campaign, python) {
  const { encodeResults, recordBatches } = await import('../../dist/api/jobs.js');
  const arrow = await import('apache-arrow');
  const folder = join(campaign.folder, 'answers');
  mkdirSync(folder);
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string' },
      age: { type: 'integer' },
      share: { type: 'number' },
      ok: { type: 'boolean' },
      tags: { type: 'array' },
    },
  };
  const common = { index: 0, tokens: [1], finishReason: 'stop', usage: { promptTokens: 1, completionTokens: 1 } };
  const text = '{"name":"Ann","age":9007199254740993,"share":0.5,"ok":true,"tags":["a"]}';
  const error = (code) => ({ error: { code, message: 'no' } });
  const files = {
    answers: [
      [
        { ...common, id: 1, text, value: JSON.parse(text) },
        { ...common, id: 2, text: 'cut o', ...error('schema') },
      ],
      { responseFormat: { type: 'json_schema', schema } },
    ],
    embeddings: [
      [
        { ...common, id: 1, embedding: [0.5, -1, 0.25] },
        { ...common, id: 2, ...error('too-long') },
        { ...common, id: 3, embedding: [] },
      ],
      { task: 'embed' },
    ],
  };
  for (const [name, [results, options]] of Object.entries(files)) {
    await pipeline(
      Readable.from(encodeResults(results, { ...options, format: 'parquet' })),
      createWriteStream(join(folder, `${name}.parquet`)),
    );
    await pipeline(
      await arrow.RecordBatchStreamWriter.writeAll(recordBatches(results, { ...options, arrow })),
      createWriteStream(join(folder, `${name}.arrows`)),
    );
  }
  const { status, stdout, stderr } = spawnSync(python, [join(ROOT, 'scripts/nightly/lib/checkAnswers.py'), folder], {
    encoding: 'utf8',
  });
  campaign.count('answers read by others', stdout.split('\n').filter((line) => line.startsWith('ok ')).length);
  if (status !== 0) campaign.violation('other readers of answers', `${stdout}${stderr}`);
}

if (process.argv[2] === '--one-job') await oneJob(process.argv.slice(3));
else {
  const options = {
    mutations: { type: 'string', default: '2000' },
    rows: { type: 'string', default: '3000000' },
    memory: { type: 'string', default: '400' },
    python: { type: 'string' },
  };
  await runCampaign({ usage: USAGE, options, done: 'mutations' }, async (campaign) => {
    needBuild();
    await mutations(campaign);
    if (campaign.values.python === undefined) campaign.count('skipped without --python');
    else await otherReaders(campaign, campaign.values.python);
    await lengths(campaign);
  });
}
