// Engines that share a model over real networks: each in a network namespace and a cgroup of its own, over links with a
// rate and a delay; the same bits as one engine, and in which share of its processor time each gets on. Layers are divided
// as planned for the machine that `spillway profile` finds within the same bounds, corrected by the pace of one engine, which
// is run first: so does a plan on a machine that has run the model before.
//   node bench/shaped.mjs --model FILE [--apart layers,prompts] [--engines 2,4] [--processors 0.45] [--batch-size 64] [--rows 256] [--repeat 3] [--hidden-states bfloat16] [--json FILE]
// With --apart prompts two engines of all layers are run as well, of which one computes prompts for the other
// (follow --prompts), beside what the plan says of it: of each engine's processor time, too, which others on the machine
// disturb less than the pace.
// With --apart heads or rows engines have a share of each layer (follow --tensor-parallel), attention divided so; the work
// of messages is the processor time of threads that do not compute beyond that of one engine.
// Beside them stands llama.cpp's rpc backend on the same machines and links, where bench/peers/buildLlamaCpp.mjs built it.
// Linux and root. An engine's efficiency is its processor seconds over quota x wall, from the run's beginning to its end;
// the table has that of all of them together. Others on the machine count: a quota that the machine did not have cannot
// be used, so the report has the load average, and by how much the switch was late at most.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readModel } from '../dist/api/models.js';
import {
  parsePolicy,
  planPipeline,
  planPrompts,
  planTensorParallel,
  predict,
  readModelShape,
} from '../dist/api/plan.js';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { profileWithin } from './lib/profileWithin.mjs';
import { markdownTable } from './lib/results.mjs';
import { runEngines } from './lib/runEngines.mjs';
import { ShapedNetwork, whyUnshaped } from './lib/ShapedNetwork.mjs';
import { median } from './lib/statistics.mjs';
import { syntheticRows } from './lib/syntheticRows.mjs';
import { runRpc, whyNoRpc } from './peers/runRpc.mjs';

const { values, number } = readFlags(
  'usage: node bench/shaped.mjs --model FILE [--apart layers,prompts] [--links 1e9/0.0002,1e8/0.02] [--engines 2,4] [--processors 0.45] [--batch-size 64] [--micro-batches N] [--rows 256] [--prompt-tokens 32] [--max-new-tokens 32] [--repeat 3] [--hidden-states float32|bfloat16] [--llama-cpp PROGRAM] [--llama-cpp-sequences 64] [--time-limit 600] [--json FILE]',
  {
    model: { type: 'string' },
    apart: { type: 'string', default: 'layers' },
    links: { type: 'string', default: '1e9/0.0002,1e8/0.02' },
    engines: { type: 'string', default: '2,4' },
    processors: { type: 'string', default: '0.45' },
    'batch-size': { type: 'string', default: '64' },
    'micro-batches': { type: 'string' },
    rows: { type: 'string', default: '256' },
    'prompt-tokens': { type: 'string', default: '32' },
    'max-new-tokens': { type: 'string', default: '32' },
    repeat: { type: 'string', default: '3' },
    'hidden-states': { type: 'string', default: 'float32' },
    'llama-cpp': { type: 'string', default: join(cacheFolder(), 'build-llama.cpp/bin/llama-batched-bench') },
    'llama-cpp-sequences': { type: 'string', default: '64' },
    'time-limit': { type: 'string', default: '600' },
    json: { type: 'string' },
  },
);
if (!values.model) fail('--model: found none, expected the file of a model');
const why = whyUnshaped();
if (why) fail(why);
const processors = Number(values.processors);
if (!(processors > 0 && processors <= 1))
  fail(`--processors: found ${values.processors}, expected a share of one, 0 < n <= 1`);
const counts = values.engines.split(',').map(Number);
if (!counts.every((count) => Number.isInteger(count) && count >= 2 && count <= 16))
  fail(`--engines: found ${values.engines}, expected numbers from 2 to 16`);

const ways = values.apart.split(',');
if (!ways.every((way) => ['layers', 'prompts', 'heads', 'rows'].includes(way)))
  fail(`--apart: found ${values.apart}, expected layers, prompts, heads or rows, or several with commas`);
const LINKS = values.links.split(',').map((text) => {
  const [bitsPerSecond, delaySeconds] = text.split('/').map(Number);
  if (!(bitsPerSecond > 0 && delaySeconds >= 0))
    fail(`--links: found ${text}, expected bits a second and seconds, such as 1e9/0.0002`);
  return { name: `${bitsPerSecond / 1e6} Mbit/s, ${delaySeconds * 1000} ms`, bitsPerSecond, delaySeconds };
});
const { layers, vocabularySize } = (await readModel(values.model)).decoder;
const [promptTokens, maxNewTokens] = [number('prompt-tokens'), number('max-new-tokens')];
const rows = syntheticRows({ rows: number('rows'), promptTokens, vocabularySize });
const shape = await readModelShape(values.model);
const stop = stopSignal();
const boundsOf = (count) => Array.from({ length: count }, () => ({ processors }));
/** By the number of machines that compute at once; those are alike, so the first one's stands for all. */
const hardwareOf = new Map();

const workload = { promptTokens, newTokens: maxNewTokens, rows: rows.length };
const IN_MEMORY = { gpu: 0, cpu: 1, disk: 0 };

/** One of so many machines that compute at once. */
async function hardwareOfEach(count) {
  if (!hardwareOf.has(count)) hardwareOf.set(count, (await profileWithin(boundsOf(count)))[0]);
  // Whatever the machine has: these have a part of a processor.
  const profile = hardwareOf.get(count);
  return { ...profile, machine: { ...profile.machine, processors } };
}

/** Seconds that a byte takes over links like this one, by the link. */
const latencies = new Map();
async function latencyOf(link) {
  if (!latencies.has(link)) {
    const network = await ShapedNetwork.open(2, link);
    try {
      latencies.set(link, (await network.roundTripSeconds()) / 2);
    } finally {
      await network.close();
    }
  }
  return latencies.get(link);
}

/** The tokens/s that the profile has one engine make. */
async function plannedAlone() {
  const policy = parsePolicy({
    schedule: 'diagonal',
    batchSize: number('batch-size'),
    batches: 1,
    weights: IN_MEMORY,
    cache: IN_MEMORY,
    activations: IN_MEMORY,
    compressWeights: 'none',
    compressCache: 'none',
    cpuAttention: true,
    threads: 1,
  });
  return predict({ shape, hardware: await hardwareOfEach(1), workload }, policy).tokensPerSecond;
}

/** Factors on all computing, by one engine's run: what a hardware file has as `corrections` after runs. */
const correctedBy = (factor) =>
  Object.fromEntries(
    ['prefill', 'decode'].flatMap((phase) =>
      ['f32', 'f16', 'q8', 'q4', 'q4_k', 'q6_k'].flatMap((weights) =>
        [1, 4, 16, 64, 256, 1024, 4096].map((tokens) => [`compute.${phase}.${weights}.${tokens}`, factor]),
      ),
    ),
  );

/** What the plan is made for. */
async function requestOf(count, batches, shaped) {
  const hardware = { ...(await hardwareOfEach(count)), corrections: correctedBy(slower) };
  const link = { bytesPerSecond: shaped.bitsPerSecond / 8, latencySeconds: await latencyOf(shaped) };
  return {
    shape,
    machines: Array.from({ length: count }, (_, at) => ({ name: `machine ${at + 1}`, hardware, link })),
    workload,
    allow: { batchSize: number('batch-size'), batches, threads: 1 },
  };
}

/** Which layers each of so many engines has, and how fast that is to be. */
async function planned(count, batches, link) {
  const hiddenStates = values['hidden-states'];
  const { stages, tokensPerSquare, tokensPerSecond } = planPipeline({
    ...(await requestOf(count, batches, link)),
    hiddenStates,
  });
  return { engines: stages.map(({ layers }) => ({ layers, tokensPerSquare })), tokensPerSecond };
}

/** The same of an engine that generates and one that computes prompts for it. */
async function plannedApart(link) {
  const plan = planPrompts(await requestOf(2, 1, link));
  const { tokensPerSecond, aloneTokensPerSecond, shardsTokensPerSecond, bottleneck, generates, prompts } = plan;
  return {
    engines: [{}, {}],
    tokensPerSecond,
    aloneTokensPerSecond,
    shardsTokensPerSecond,
    bottleneck,
    busySeconds: [generates.busySeconds, prompts.busySeconds],
  };
}

/** The same of engines that have a share of each layer. */
async function plannedShares(count, link, attention) {
  const plan = planTensorParallel({ ...(await requestOf(count, 2, link)), attention });
  const { tokensPerSecond, sentBytes, cacheBytes, messageSeconds } = plan;
  return {
    engines: Array.from({ length: count }, (_, index) => ({ tensorParallel: { index, of: count, attention } })),
    tokensPerSecond,
    sentBytes,
    cacheBytes,
    messageSeconds,
  };
}

/** Runs of some engines over links like this one. @param link undefined: one engine alone */
async function runs(count, link, way = 'layers') {
  const batches =
    count === 1 || way === 'prompts'
      ? 1
      : way === 'heads' || way === 'rows'
        ? 2
        : values['micro-batches'] === undefined
          ? count + 1
          : number('micro-batches');
  const shared = {
    model: values.model,
    batchSize: number('batch-size'),
    batches,
    threads: 1,
    policy: 'default',
    learn: false,
  };
  const plan =
    link &&
    (await (way === 'layers'
      ? planned(count, batches, link)
      : way === 'prompts'
        ? plannedApart(link)
        : plannedShares(count, link, way)));
  const ran = await runEngines({
    engines: plan ? plan.engines.map((each) => ({ ...shared, ...each })) : [shared],
    bounds: boundsOf(count),
    link,
    rows,
    run: { maxNewTokens, ignoreEos: true, sharePrefixes: false },
    sockets: way === 'layers' ? { hiddenStates: values['hidden-states'] } : {},
    repeat: number('repeat'),
    stop,
  });
  return {
    count,
    link,
    way,
    plan,
    ...ran,
    runs: ran.runs.map((run) => ({
      ...run,
      tokensPerSecond: run.tokens / run.wallSeconds,
      efficiencies: run.processorSeconds.map((seconds) => seconds / (processors * run.wallSeconds)),
    })),
  };
}

const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
const percent = (share) => `${Math.round(100 * share)}%`;
const tokensPerSecond = (each) => median(each.runs.map((run) => run.tokensPerSecond));
const alone = await runs(1);
const predictedAlone = await plannedAlone();
/** How much longer one engine takes than the profile says. */
const slower = Math.min(4, Math.max(0.25, predictedAlone / tokensPerSecond(alone)));
const all = [];
const rpc = [];
const noRpc = whyNoRpc(values['llama-cpp']);
const [peerTokens, timeLimitSeconds] = [{ promptTokens, maxNewTokens }, number('time-limit')];
if (ways.includes('prompts')) for (const link of LINKS) all.push(await runs(2, link, 'prompts'));
for (const way of ['heads', 'rows'].filter((each) => ways.includes(each)))
  for (const link of LINKS) for (const count of counts) all.push(await runs(count, link, way));
for (const link of ways.includes('layers') ? LINKS : [])
  for (const count of counts) {
    all.push(await runs(count, link));
    if (noRpc === undefined)
      rpc.push({
        ...(await runRpc({
          program: values['llama-cpp'],
          model: values.model,
          layers,
          bounds: boundsOf(count),
          link,
          work: { rows: Math.min(rows.length, number('llama-cpp-sequences')), ...peerTokens },
          timeLimitSeconds,
          stop,
        })),
        count,
        link,
      });
  }
const isShared = ({ way }) => way === 'heads' || way === 'rows';
const resultsOf = (some) => new Set(some.flatMap((each) => each.runs.map((run) => run.results)));
const results = resultsOf([alone, ...all].filter((each) => !isShared(each)));
// Sums of shares are made otherwise than one engine's, by their number alone.
for (const count of counts)
  if (resultsOf(all.filter((each) => isShared(each) && each.count === count)).size > 1)
    throw new Error(`found other answers of ${count} shares, expected the same however attention is divided`);
if (values['hidden-states'] === 'float32' && results.size > 1)
  throw new Error('found other answers, expected those of one engine in every run');
/** llama.cpp's rate on the same machines and links, where it was run. */
function peerOf({ count, link }) {
  const peer = rpc.find((other) => other.count === count && other.link === link);
  return peer && { rpcTokensPerSecond: peer.generatedTokensPerSecond };
}
const table = [alone, ...all].map((each) => ({
  engines: each.count,
  layers:
    each.way === 'prompts'
      ? 'prompts apart'
      : isShared(each)
        ? `shares, attention by ${each.way}`
        : (each.plan?.engines.map(({ layers: { count } }) => count).join(' + ') ?? String(layers)),
  predictedTokensPerSecond: each === alone ? predictedAlone : each.plan?.tokensPerSecond,
  link: each.link?.name ?? 'none',
  tokensPerSecond: tokensPerSecond(each),
  toOne: tokensPerSecond(each) / tokensPerSecond(alone),
  efficiency: median(each.runs.map(({ efficiencies }) => mean(efficiencies))),
  least: median(each.runs.map(({ efficiencies }) => Math.min(...efficiencies))),
  load: each.load,
  lateSeconds: each.network?.mostLateSeconds ?? 0,
  megabytes: (each.network?.bytes ?? 0) / 1e6,
  ...peerOf(each),
}));
process.stdout.write(
  `Engines of one thread in ${processors} processors each, batches of ${values['batch-size']} rows, hidden states in ${values['hidden-states']}; ${results.size === 1 ? 'the same bits everywhere' : `${results.size} different results`}:\n\n${markdownTable(
    [
      'engines',
      'layers',
      'link',
      'tokens/s',
      'predicted',
      'to one',
      'efficiency',
      'of the least busy',
      'load average',
      'switch late by',
      'moved',
      'llama.cpp rpc, tokens/s',
      'to it',
    ],
    table.map((each) => [
      each.engines,
      each.layers,
      each.link,
      each.tokensPerSecond.toFixed(1),
      each.predictedTokensPerSecond?.toFixed(1) ?? '-',
      each.toOne.toFixed(2),
      percent(each.efficiency),
      percent(each.least),
      each.load.toFixed(1),
      `${(1000 * each.lateSeconds).toFixed(0)} ms`,
      `${each.megabytes.toFixed(0)} MB`,
      each.rpcTokensPerSecond?.toFixed(1) ?? '-',
      each.rpcTokensPerSecond ? (each.tokensPerSecond / each.rpcTokensPerSecond).toFixed(1) : '-',
    ]),
  ).join(
    '\n',
  )}\n${noRpc === undefined ? '' : `llama.cpp: ${noRpc}\n`}\nPredictions of several engines are corrected by one engine's run: it took ${slower.toFixed(2)} times what the profile says.\n`,
);
const leastOf = (each, engine) => Math.min(...each.runs.map(({ processorSeconds }) => processorSeconds[engine]));
for (const each of all.filter(({ way }) => way === 'prompts')) {
  const one = leastOf(alone, 0);
  // Corrected, as those of the two are.
  const planned = (rows.length * maxNewTokens) / each.plan.aloneTokensPerSecond;
  const shares = ['generates', 'computes prompts'].map(
    (engine, at) =>
      `the one that ${engine} ${(leastOf(each, at) / one).toFixed(2)} (planned ${(each.plan.busySeconds[at] / planned).toFixed(2)})`,
  );
  process.stdout.write(
    `\n${each.link.name}, processor time over one engine's ${one.toFixed(2)} s (planned ${(processors * planned).toFixed(2)} s), least of ${values.repeat}: ${shares.join(', ')}\n`,
  );
}
for (const each of all.filter(isShared)) {
  const own = (of, at) => Math.min(...of.runs.map(({ ownSeconds }) => ownSeconds[at]));
  const beyond = each.plan.engines.map((_, at) => own(each, at) - own(alone, 0));
  process.stdout.write(
    `\n${each.count} shares, attention by ${each.way}, ${each.link.name}, processor time of an engine's messages, least of ${values.repeat}: ${beyond.map((seconds) => seconds.toFixed(2)).join(', ')} s (planned ${each.plan.messageSeconds.toFixed(2)} s); ${(each.plan.sentBytes / 1e6).toFixed(0)} MB sent\n`,
  );
}
if (values.json)
  writeFileSync(
    values.json,
    `${JSON.stringify({ machine: describeMachine(), flags: values, table, runs: [alone, ...all], rpc }, null, 2)}\n`,
  );
