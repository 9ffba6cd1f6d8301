// Engines that share a model's layers: one micro-batch after another against several at once, in one run.
//   node bench/pipeline.mjs --model FILE [--engines 2] [--micro-batches 3] [--batch-size 16] [--rows 96] [--max-new-tokens 32] [--repeat 3] [--json FILE]
// All engines are in this process, each with a compute thread of its own, over links in memory. Prints, for every number
// of micro-batches, generated tokens a second (medians) and the share of the time in which each engine computes; the
// runs of one repetition follow one another, so that they meet the same machine. Processors that others use count: the
// report says how much of them this process had.
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { activationLink, Engine } from '../dist/index.js';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { markdownTable } from './lib/results.mjs';
import { median } from './lib/statistics.mjs';
import { syntheticRows } from './lib/syntheticRows.mjs';

const { values, number } = readFlags(
  'usage: node bench/pipeline.mjs --model FILE [--engines 2] [--micro-batches 3] [--batch-size 16] [--rows 96] [--prompt-tokens 32] [--max-new-tokens 32] [--repeat 3] [--json FILE]',
  {
    model: { type: 'string' },
    engines: { type: 'string', default: '2' },
    'micro-batches': { type: 'string', default: '3' },
    'batch-size': { type: 'string', default: '16' },
    rows: { type: 'string', default: '96' },
    'prompt-tokens': { type: 'string', default: '32' },
    'max-new-tokens': { type: 'string', default: '32' },
    repeat: { type: 'string', default: '3' },
    json: { type: 'string' },
  },
);
if (!values.model) fail('--model: found none, expected the file of a model');
const [count, batches, maxNewTokens] = [number('engines', 2), number('micro-batches'), number('max-new-tokens')];
const { layers, vocabularySize } = (await readModel(values.model)).decoder;
const rows = syntheticRows({ rows: number('rows'), promptTokens: number('prompt-tokens'), vocabularySize });

/** The share of the run in which the queue that computes was busy. */
const busy = ({ queues, seconds }) => (queues['cpu-compute']?.busySeconds ?? 0) / (seconds.wall - seconds.load);

async function measured(engines, microBatches) {
  const links = engines.map(() => activationLink());
  const peers = engines.map((_, index) => ({ source: links.at(index - 1).source, sink: links[index].sink }));
  const stats = new Array(engines.length);
  const following = engines
    .slice(1)
    .map((engine, index) => engine.follow(peers[index + 1], { onStats: (each) => (stats[index + 1] = each) }));
  const [start, used] = [performance.now(), process.cpuUsage()];
  let answers = 0;
  const texts = [];
  const results = engines[0].generate(rows, {
    maxNewTokens,
    ignoreEos: true,
    sharePrefixes: false,
    peers: peers[0],
    microBatches,
    onStats: (each) => (stats[0] = each),
  });
  for await (const { error, usage, text } of results) {
    if (error) throw new Error(error.message);
    answers += usage.completionTokens;
    texts.push(text);
  }
  await Promise.all(following);
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(used);
  return {
    microBatches,
    tokensPerSecond: answers / seconds,
    busy: stats.map(busy),
    processors: (user + system) / 1e6 / seconds,
    texts: texts.join('\n'),
  };
}

const engines = [];
try {
  for (let index = 0; index < count; index++) {
    const first = Math.round((layers * index) / count);
    engines.push(
      await Engine.open({
        model: values.model,
        layers: { first, count: Math.round((layers * (index + 1)) / count) - first },
        batchSize: number('batch-size'),
        batches,
        threads: 1,
      }),
    );
  }
  await measured(engines, batches);
  const runs = [];
  for (let turn = 0; turn < number('repeat'); turn++)
    for (let microBatches = 1; microBatches <= batches; microBatches++)
      runs.push(await measured(engines, microBatches));
  if (new Set(runs.map(({ texts }) => texts)).size > 1)
    throw new Error('found other answers, expected the same in every run');
  const table = Array.from({ length: batches }, (_, index) => {
    const same = runs.filter(({ microBatches }) => microBatches === index + 1);
    return {
      microBatches: index + 1,
      tokensPerSecond: median(same.map(({ tokensPerSecond }) => tokensPerSecond)),
      busy: engines.map((__, engine) => median(same.map((run) => run.busy[engine]))),
      processors: median(same.map(({ processors }) => processors)),
    };
  });
  const percent = (share) => `${Math.round(100 * share)}%`;
  process.stdout.write(
    `${count} engines of one thread each on ${availableParallelism()} processors, ${batches} batches of ${values['batch-size']} rows:\n\n${markdownTable(
      [
        'micro-batches',
        'tokens/s',
        'to one',
        ...engines.map((_, index) => `engine ${index + 1} computes`),
        'processors used',
      ],
      table.map((each) => [
        each.microBatches,
        each.tokensPerSecond.toFixed(1),
        (each.tokensPerSecond / table[0].tokensPerSecond).toFixed(2),
        ...each.busy.map(percent),
        each.processors.toFixed(2),
      ]),
    ).join('\n')}\n`,
  );
  if (values.json)
    writeFileSync(
      values.json,
      `${JSON.stringify({ machine: describeMachine(), flags: values, table, runs: runs.map(({ texts: _, ...run }) => run) }, null, 2)}\n`,
    );
} finally {
  for (const engine of engines) await engine.close();
}
