// Engines that share a model: its layers divided (a pipeline), or each layer's heads and columns (tensor parallelism).
//   node bench/tensorParallel.mjs --model FILE [--engines 2] [--rows 1,8,64] [--prompt-tokens 32] [--max-new-tokens 32] [--repeat 3] [--json FILE]
// Shares are run twice: with attention divided by heads, and by rows, which gives the same bits.
// All engines are in this process, each with a compute thread of its own, over links in memory; beside them one engine
// with as many threads. Prints, for every number of rows, generated tokens a second (medians), what each engine sends a
// token, and what the planner says of both by this machine's profile and the link that the sums had: bytes from one
// engine to the other a second, and how long parts of a layer wait for a sum with the fewest rows. Answers of a pipeline are those of one
// engine; those of shares are compared with each other alone, since their sums are made otherwise: they are the same bits in
// every run, and what is sent is the closed form.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { activationLink, Engine } from '../dist/index.js';
import { planPipeline, planTensorParallel, readHardware, readModelShape } from '../dist/api/plan.js';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { markdownTable } from './lib/results.mjs';
import { median } from './lib/statistics.mjs';

const { values, number } = readFlags(
  'usage: node bench/tensorParallel.mjs --model FILE [--engines 2] [--rows 1,8,64] [--prompt-tokens 32] [--max-new-tokens 32] [--repeat 3] [--json FILE]',
  {
    model: { type: 'string' },
    engines: { type: 'string', default: '2' },
    rows: { type: 'string', default: '1,8,64' },
    'prompt-tokens': { type: 'string', default: '32' },
    'max-new-tokens': { type: 'string', default: '32' },
    repeat: { type: 'string', default: '3' },
    json: { type: 'string' },
  },
);
if (!values.model) fail('--model: found none, expected the file of a model');
const [count, promptTokens, maxNewTokens] = [number('engines', 2), number('prompt-tokens'), number('max-new-tokens')];
const sizes = values.rows.split(',').map(Number);
if (sizes.some((rows) => !(Number.isInteger(rows) && rows >= 1)))
  fail(`--rows: found ${values.rows}, expected whole numbers, with commas`);
const { layers, vocabularySize } = (await readModel(values.model)).decoder;
const most = Math.max(...sizes);
/** Parts of a layer that go on with a sum, and those that it is of. */
const BEHIND_SUMS = { feedForward: 'output', add: 'feedForward' };
const promptOf = (row) =>
  Array.from({ length: promptTokens }, (_, at) => (row * 7919 + at * 104_729 + 17) % vocabularySize);

/** Batches that fill a pipeline, and those that hide sums: each has room for its part of the most rows. */
const BATCHES = { pipeline: count + 1, 'tensor parallel': 2, 'attention by rows': 2, 'one engine': 1 };
const optionsOf = (way, index) => ({
  model: values.model,
  policy: 'default',
  batches: BATCHES[way],
  batchSize: Math.ceil(most / BATCHES[way]),
  threads: way === 'one engine' ? count : 1,
  ...(way === 'pipeline' && {
    layers: {
      first: Math.round((layers * index) / count),
      count: Math.round((layers * (index + 1)) / count) - Math.round((layers * index) / count),
    },
  }),
  ...(way === 'tensor parallel' && { tensorParallel: { index, of: count } }),
  ...(way === 'attention by rows' && { tensorParallel: { index, of: count, attention: 'rows' } }),
});

async function measured(way, engines, rows) {
  const links = engines.map(() => activationLink());
  const peers = engines.map((_, index) => ({ source: links.at(index - 1).source, sink: links[index].sink }));
  let sentBytes = 0;
  const parts = new Map();
  const gaps = [];
  const following = engines.slice(1).map((engine, index) => engine.follow(peers[index + 1]));
  const start = performance.now();
  let answers = 0;
  const bits = createHash('sha256');
  const results = engines[0].generate(
    Array.from({ length: rows }, (_, row) => ({ tokens: promptOf(row) })),
    {
      maxNewTokens,
      ignoreEos: true,
      logprobs: 1,
      sharePrefixes: false,
      ...(way !== 'one engine' && { peers: peers[0] }),
      onTrace: ({ ts, dur = 0, args }) => {
        if (args?.to === 'peer') sentBytes += Number(args.bytes);
        const before = BEHIND_SUMS[args?.part];
        const place = `${args?.pass} ${args?.slot} ${args?.layer}`;
        const ended = parts.get(`${place} ${before}`);
        if (ended !== undefined) gaps.push((ts - ended) / 1e6);
        if (args?.part !== undefined) parts.set(`${place} ${args.part}`, ts + dur);
      },
    },
  );
  for await (const { error, usage, tokens, logprobs } of results) {
    if (error) throw new Error(error.message);
    bits.update(JSON.stringify([tokens, logprobs]));
    answers += usage.completionTokens;
  }
  await Promise.all(following);
  const tokensPerSecond = (answers * 1000) / (performance.now() - start);
  return {
    way,
    rows,
    tokensPerSecond,
    sentBytes: sentBytes / answers,
    bits: bits.digest('hex'),
    ...(gaps.length > 0 && { sum: gaps.reduce((all, each) => all + each, 0) / gaps.length }),
  };
}

/** Numbers that are handed over in memory and added to others, a second. */
async function bytesPerSecond() {
  const length = 2 ** 20;
  const seconds = [];
  for (let turn = 0; turn < 20; turn++) {
    const [values, sum] = [new Float32Array(length).fill(turn), new Float32Array(length).fill(1)];
    const { sink, source } = activationLink();
    const start = performance.now();
    void sink.send({ kind: 'partial', pass: 0, slot: 0, layer: 0, step: 0, values: values.slice() });
    const { value } = await source[Symbol.asyncIterator]().next();
    for (let at = 0; at < length; at++) sum[at] += value.values[at];
    seconds.push((performance.now() - start) / 1000);
  }
  return (4 * length) / median(seconds);
}

const runs = [];
for (const way of ['one engine', 'pipeline', 'tensor parallel', 'attention by rows']) {
  const engines = [];
  try {
    for (let index = 0; index < (way === 'one engine' ? 1 : count); index++)
      engines.push(await Engine.open(optionsOf(way, index)));
    await measured(way, engines, sizes[0]);
    for (let turn = 0; turn < number('repeat'); turn++)
      for (const rows of sizes) runs.push(await measured(way, engines, rows));
  } finally {
    for (const engine of engines) await engine.close();
  }
}

// With the fewest rows nothing hides a sum: its bytes take next to nothing then.
const latencySeconds = median(
  runs.flatMap(({ rows, sum }) => (sum !== undefined && rows === Math.min(...sizes) ? [sum] : [])),
);
const link = { bytesPerSecond: await bytesPerSecond(), latencySeconds };
const machine = await readHardware('this');
// Each engine has its part of the processors.
const processors = Math.max(1, Math.floor(availableParallelism() / count));
const hardware = { ...machine, machine: { ...machine.machine, processors } };
const shape = await readModelShape(values.model);
const planned = (rows) => {
  const request = (way) => ({
    machines: Array.from({ length: count }, (_, index) => ({ name: `engine ${index + 1}`, hardware, link })),
    shape,
    workload: { promptTokens, newTokens: maxNewTokens, rows },
    allow: {
      threads: 1,
      batches: Math.min(BATCHES[way], rows),
      batchSize: Math.ceil(rows / Math.min(BATCHES[way], rows)),
    },
  });
  const { tokensPerSecond, sentBytes } = planTensorParallel(request('tensor parallel'));
  return {
    pipeline: planPipeline(request('pipeline')).tokensPerSecond,
    'tensor parallel': tokensPerSecond,
    sentBytes: sentBytes / (rows * maxNewTokens),
  };
};
const table = sizes.map((rows) => {
  const of = (way) => runs.filter((run) => run.way === way && run.rows === rows);
  const speed = (way) => median(of(way).map(({ tokensPerSecond }) => tokensPerSecond));
  for (const way of Object.keys(BATCHES))
    if (new Set(of(way).map(({ bits }) => bits)).size > 1) throw new Error(`${way}: found other bits in another run`);
  if (of('tensor parallel')[0].bits !== of('attention by rows')[0].bits)
    throw new Error('attention by rows: found other bits than by heads');
  return {
    rows,
    one: speed('one engine'),
    pipeline: speed('pipeline'),
    tensorParallel: speed('tensor parallel'),
    byRows: speed('attention by rows'),
    sentByRows: of('attention by rows')[0].sentBytes,
    sentBytes: of('tensor parallel')[0].sentBytes,
    planned: planned(rows),
  };
});
process.stdout.write(
  `${count} engines of one thread each on ${availableParallelism()} processors; links of ${(link.bytesPerSecond / 1e9).toFixed(1)} GB/s and ${(link.latencySeconds * 1e6).toFixed(0)} µs:\n\n${markdownTable(
    [
      'rows',
      `one engine, ${count} threads`,
      'pipeline',
      'tensor parallel',
      'to the pipeline',
      'planned',
      'KiB sent a token',
      'closed form',
      'attention by rows',
      'KiB sent a token',
    ],
    table.map(({ rows, one, pipeline, tensorParallel, byRows, sentBytes, sentByRows, planned: plan }) => [
      rows,
      one.toFixed(1),
      pipeline.toFixed(1),
      tensorParallel.toFixed(1),
      (tensorParallel / pipeline).toFixed(2),
      (plan['tensor parallel'] / plan.pipeline).toFixed(2),
      (sentBytes / 1024).toFixed(1),
      (plan.sentBytes / 1024).toFixed(1),
      byRows.toFixed(1),
      (sentByRows / 1024).toFixed(1),
    ]),
  ).join('\n')}\n`,
);
if (values.json)
  writeFileSync(
    values.json,
    `${JSON.stringify({ machine: describeMachine(), flags: values, link, table, runs }, null, 2)}\n`,
  );
