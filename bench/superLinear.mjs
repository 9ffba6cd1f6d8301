// A model that one machine has to stream from a slow disk, and several hold in memory together: one, two and four
// engines, each with processors, memory and a disk of its own, beside what was planned for such machines.
//   node bench/superLinear.mjs --model FILE [--engines 1,2,4] [--processors 0.45] [--memory 1024] [--disk-rate 100] [--rows 64] [--repeat 1] [--json FILE]
// Linux and root. The machine is measured as `spillway profile` does, within the same bounds; the plan for one is what
// `choosePolicy` finds, for several `planPipeline`, and engines are opened by it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readModel } from '../dist/api/models.js';
import { choosePolicy, planPipeline, readModelShape, typicalProcessBytes } from '../dist/api/plan.js';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { profileWithin } from './lib/profileWithin.mjs';
import { markdownTable } from './lib/results.mjs';
import { runEngines } from './lib/runEngines.mjs';
import { whyUnshaped } from './lib/ShapedNetwork.mjs';
import { median } from './lib/statistics.mjs';
import { syntheticRows } from './lib/syntheticRows.mjs';

const { values, number } = readFlags(
  'usage: node bench/superLinear.mjs --model FILE [--engines 1,2,4] [--processors 0.45] [--memory MiB, 1024] [--disk-rate MB/s, 100] [--disk FOLDER] [--rows 64] [--prompt-tokens 16] [--max-new-tokens 8] [--batch-size N] [--batches N] [--repeat 1] [--json FILE]',
  {
    model: { type: 'string' },
    engines: { type: 'string', default: '1,2,4' },
    processors: { type: 'string', default: '0.45' },
    memory: { type: 'string', default: '1024' },
    'disk-rate': { type: 'string', default: '100' },
    disk: { type: 'string', default: join(cacheFolder(), 'repacked') },
    rows: { type: 'string', default: '64' },
    'prompt-tokens': { type: 'string', default: '16' },
    'max-new-tokens': { type: 'string', default: '8' },
    'batch-size': { type: 'string' },
    batches: { type: 'string' },
    repeat: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
);
if (!values.model) fail('--model: found none, expected the file of a model');
const why = whyUnshaped();
if (why) fail(why);
const counts = values.engines.split(',').map(Number);
if (!counts.every((count) => Number.isInteger(count) && count >= 1 && count <= 16))
  fail(`--engines: found ${values.engines}, expected numbers from 1 to 16`);
const bounds = {
  processors: Number(values.processors),
  memoryBytes: number('memory') * 2 ** 20,
  disk: { folder: values.disk, bytesPerSecond: number('disk-rate') * 1e6 },
};
/** The rest is the kernel's, for files and sockets. */
const cpuMemory = Math.floor(0.9 * bounds.memoryBytes);
const LINK = { bitsPerSecond: 1e9, delaySeconds: 0.0002 };

const settled = (flag, name) => values[flag] !== undefined && { [name]: number(flag) };
const allow = { threads: 1, ...settled('batch-size', 'batchSize'), ...settled('batches', 'batches') };

/** What so many engines are opened with, and what is predicted of them. */
function planned(count, { hardware, caps }) {
  if (count === 1) {
    const { policy, predicted } = choosePolicy({ shape, hardware, caps, workload, allow });
    return { engines: [{ policy }], microBatches: undefined, policies: [policy], seconds: predicted.wallSeconds };
  }
  const link = { bytesPerSecond: LINK.bitsPerSecond / 8, latencySeconds: LINK.delaySeconds };
  const machines = Array.from({ length: count }, (_, at) => ({ name: `machine ${at + 1}`, hardware, caps, link }));
  const { stages, microBatches, wallSeconds } = planPipeline({ shape, machines, workload, allow });
  const engines = stages.map(({ layers, policy }) => ({ layers, policy }));
  return { engines, microBatches, policies: stages.map(({ policy }) => policy), seconds: wallSeconds };
}

mkdirSync(values.disk, { recursive: true });
const stop = stopSignal();
const { vocabularySize } = (await readModel(values.model)).decoder;
const shape = await readModelShape(values.model);
const [promptTokens, maxNewTokens, count] = [number('prompt-tokens'), number('max-new-tokens'), number('rows')];
const rows = syntheticRows({ rows: count, promptTokens, vocabularySize });
const workload = { promptTokens, newTokens: maxNewTokens, rows: count };
const caps = { cpu: cpuMemory - typicalProcessBytes(vocabularySize) };
const all = [];
for (const engines of counts) {
  // They are alike: the first one's profile stands for all.
  const [hardware] = await profileWithin(Array.from({ length: engines }, () => bounds));
  const plan = planned(engines, { hardware, caps });
  const { microBatches, seconds, policies } = plan;
  process.stderr.write(`${engines}: planned ${JSON.stringify(policies[0])}, ${seconds.toFixed(1)} s\n`);
  const { runs, load } = await runEngines({
    engines: plan.engines.map((each) => ({
      ...each,
      model: values.model,
      disk: values.disk,
      threads: 1,
      hardware,
      cpuMemory,
      expectedRows: workload,
      learn: false,
    })),
    bounds: plan.engines.map(() => bounds),
    ...(engines > 1 && { link: LINK }),
    rows,
    run: { maxNewTokens, ignoreEos: true, sharePrefixes: false, ...(microBatches && { microBatches }) },
    repeat: number('repeat'),
    stop,
  });
  const wallSeconds = median(runs.map((run) => run.wallSeconds));
  process.stderr.write(`${engines}: ${wallSeconds.toFixed(1)} s\n`);
  all.push({ engines, hardware, plan, wallSeconds, tokensPerSecond: runs[0].tokens / wallSeconds, load, runs });
}
const results = new Set(all.flatMap(({ runs }) => runs.map((run) => run.results)));
if (results.size > 1) throw new Error('found other answers, expected the same of every number of engines');
const [first] = all;
process.stdout.write(
  `Engines of one thread in ${values.processors} processors, ${values.memory} MiB and a disk of ${values['disk-rate']} MB/s each, ${count} rows of ${promptTokens} + ${maxNewTokens} tokens, the same bits everywhere:\n\n${markdownTable(
    [
      'engines',
      'weights on disk',
      'batches x rows',
      'tokens/s',
      `to ${first.engines}`,
      'predicted tokens/s',
      'measured to predicted',
    ],
    all.map(({ engines, plan, tokensPerSecond, wallSeconds }) => [
      engines,
      plan.policies.map(({ weights }) => `${Math.round(100 * weights.disk)}%`).join(', '),
      `${plan.policies[0].batches} x ${plan.policies[0].batchSize}`,
      tokensPerSecond.toFixed(2),
      (tokensPerSecond / first.tokensPerSecond).toFixed(2),
      ((count * maxNewTokens) / plan.seconds).toFixed(2),
      (plan.seconds / wallSeconds).toFixed(2),
    ]),
  ).join('\n')}\n`,
);
if (values.json)
  writeFileSync(values.json, `${JSON.stringify({ machine: describeMachine(), flags: values, all }, null, 2)}\n`);
