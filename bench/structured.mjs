// What it costs to hold answers to a JSON Schema: the same rows under none, under one, and under one each; and what
// forced tokens save.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { describeMachine, machineInWords } from './lib/machine.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';
import { median } from './lib/statistics.mjs';
import { Engine } from '../dist/index.js';
import { resolveModel } from '../dist/api/models.js';

const USAGE = `usage: node bench/structured.mjs [--model FILE|ID] [--rows 64] [--tokens 48] [--runs 3] [--threads N] [--output FOLDER]
Rows of --tokens new tokens each, in alternating runs of one engine: without a format, with one schema for all, with another for each row. Their answers are lists of numbers that do not end before
their limit, so that all have the same number of tokens. Then an extraction of six fields under its schema, with what it forces in one pass, and sampled token by token (as rows with log-probabilities are); and
by node-llama-cpp with its own grammar of the schema, where that is installed (npm install --ignore-scripts --prefix bench/peers): eight rows, with a sequence each.`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string', default: 'smollm2-135m-instruct' },
  rows: { type: 'string', default: '64' },
  tokens: { type: 'string', default: '48' },
  runs: { type: 'string', default: '3' },
  threads: { type: 'string', default: String(availableParallelism()) },
  output: { type: 'string', default: RESULTS },
});
const signal = stopSignal();

const PEER = fileURLToPath(new URL('./peers/', import.meta.url));
const PEER_NAME = 'extraction by node-llama-cpp';
const PEER_ROWS = 8;

/** A list that is longer than any answer; `n` makes another schema of it. */
const numbers = (n) => ({
  type: 'json_schema',
  schema: { type: 'array', minItems: 500 + n, items: { type: 'integer', minimum: 0, maximum: 9999 } },
});
const FIELDS = [
  'customerName',
  'cityOfResidence',
  'subjectOfRequest',
  'urgencyOfRequest',
  'preferredLanguage',
  'needsAnswerByPhone',
];
const extraction = {
  type: 'json_schema',
  schema: {
    type: 'object',
    properties: Object.fromEntries(
      FIELDS.map((name, at) => [name, at === 5 ? { type: 'boolean' } : { enum: ['red', 'green', 'blue'] }]),
    ),
    required: FIELDS,
    additionalProperties: false,
  },
};
const promptOf = (row) => `Row ${row}: count.`;
const WORKLOADS = {
  'no format': () => undefined,
  'one schema': () => numbers(0),
  'a schema each': (row) => numbers(row),
  'extraction of six fields': () => extraction,
  // Rows with log-probabilities sample each token.
  'extraction, each token sampled': () => extraction,
};

async function timed(engine, name, formatOf) {
  const [rows, tokens] = [number('rows'), number('tokens')];
  const made = Array.from({ length: rows }, (_, row) => {
    const responseFormat = formatOf(row);
    return {
      prompt: promptOf(row),
      maxNewTokens: responseFormat === extraction ? 200 : tokens,
      ...(responseFormat && { responseFormat }),
    };
  });
  const start = performance.now();
  let generated = 0;
  for await (const { usage } of engine.generate(made, {
    ignoreEos: true,
    sharePrefixes: false,
    signal,
    ...(name.endsWith('sampled') && { logprobs: 0 }),
  }))
    generated += usage.completionTokens;
  const seconds = (performance.now() - start) / 1000;
  return { seconds, tokensPerSecond: generated / seconds, rowsPerSecond: rows / seconds, generated };
}

/** The first rows, with the same schema and model file. */
async function peer(model) {
  const job = {
    model,
    prompts: Array.from({ length: PEER_ROWS }, (_, row) => promptOf(row)),
    schema: extraction.schema,
    maxNewTokens: 200,
    threads: number('threads'),
    sequences: PEER_ROWS,
  };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(PEER, 'runNodeLlamaCppSchema.mjs'), JSON.stringify(job)],
    { signal, maxBuffer: 2 ** 24 },
  );
  const { seconds, generated } = JSON.parse(stdout.trim().split('\n').at(-1));
  return { seconds, tokensPerSecond: generated / seconds, rowsPerSecond: PEER_ROWS / seconds, generated };
}

await runMain(async () => {
  const engine = await Engine.open({ model: values.model, threads: number('threads'), signal });
  const path = await resolveModel(values.model);
  const withPeer = existsSync(join(PEER, 'node_modules/node-llama-cpp'));
  const results = new Map([...Object.keys(WORKLOADS), ...(withPeer ? [PEER_NAME] : [])].map((name) => [name, []]));
  try {
    // The first round compiles, and is not counted.
    for (let run = 0; run <= number('runs'); run += 1) {
      for (const [name, formatOf] of Object.entries(WORKLOADS)) {
        const figures = await timed(engine, name, formatOf);
        if (run > 0) results.get(name).push(figures);
      }
      if (run > 0 && withPeer) results.get(PEER_NAME).push(await peer(path));
    }
  } finally {
    await engine.close();
  }
  const machine = describeMachine(number('threads'));
  const middle = (name, figure) => median(results.get(name).map((run) => run[figure]));
  const lines = [...results.keys()].map((name) => [
    name,
    middle(name, 'generated'),
    middle(name, 'tokensPerSecond').toFixed(0),
    (middle(name, 'tokensPerSecond') / middle('no format', 'tokensPerSecond')).toFixed(3),
    middle(name, 'rowsPerSecond').toFixed(2),
  ]);
  const table = markdownTable(['answers', 'tokens', 'tokens/s', 'of no format', 'rows/s'], lines);
  const words = `${machineInWords(machine)}\n${values.rows} rows, ${values.model}, medians of ${values.runs} alternating runs\n\n${table}\n`;
  writeResults(values.output, 'structured', { machine, results: Object.fromEntries(results) }, words);
}, signal);
