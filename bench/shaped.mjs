// Engines that share a model over real networks: each in a network namespace and a cgroup of its own, over links with a
// rate and a delay; the same bits as one engine, and in which share of its processor time each gets on.
//   node bench/shaped.mjs --model FILE [--engines 2,4] [--processors 0.45] [--batch-size 64] [--rows 256] [--repeat 3] [--hidden-states bfloat16] [--json FILE]
// Linux and root. An engine's efficiency is its processor seconds over quota x wall, from the run's beginning to its end;
// the table has that of all of them together. Others on the machine count: a quota that the machine did not have cannot
// be used, so the report has the load average, and by how much the switch was late at most.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { ProcessorCap } from './lib/ProcessorCap.mjs';
import { markdownTable } from './lib/results.mjs';
import { ShapedNetwork, whyUnshaped } from './lib/ShapedNetwork.mjs';
import { median } from './lib/statistics.mjs';

const { values, number } = readFlags(
  'usage: node bench/shaped.mjs --model FILE [--engines 2,4] [--processors 0.45] [--batch-size 64] [--micro-batches N] [--rows 256] [--prompt-tokens 32] [--max-new-tokens 32] [--repeat 3] [--hidden-states float32|bfloat16] [--json FILE]',
  {
    model: { type: 'string' },
    engines: { type: 'string', default: '2,4' },
    processors: { type: 'string', default: '0.45' },
    'batch-size': { type: 'string', default: '64' },
    'micro-batches': { type: 'string' },
    rows: { type: 'string', default: '256' },
    'prompt-tokens': { type: 'string', default: '32' },
    'max-new-tokens': { type: 'string', default: '32' },
    repeat: { type: 'string', default: '3' },
    'hidden-states': { type: 'string', default: 'float32' },
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

const LINKS = [
  { name: '1 Gbit/s, 0.2 ms', bitsPerSecond: 1e9, delaySeconds: 0.0002 },
  { name: '100 Mbit/s, 20 ms', bitsPerSecond: 1e8, delaySeconds: 0.02 },
];
const ENGINE = fileURLToPath(new URL('lib/shapedEngine.mjs', import.meta.url));
const PORT = 7000;
const { layers, vocabularySize } = (await readModel(values.model)).decoder;
const rows = Array.from({ length: number('rows') }, (_, row) => ({
  tokens: Array.from(
    { length: number('prompt-tokens') },
    (__, at) => (row * 7919 + at * 104_729 + 17) % vocabularySize,
  ),
}));

const stop = stopSignal();

/** A process of one engine that talks in lines of JSON. */
class EngineProcess {
  constructor(command, told) {
    const [file, ...args] = [...command, process.execPath, ENGINE, JSON.stringify(told)];
    this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async next() {
    const { done, value } = await this.lines.next();
    if (done) throw new Error('an engine has ended before it was to');
    const said = JSON.parse(value);
    if (said.error) throw new Error(said.error);
    return said;
  }

  go() {
    this.child.stdin.write('\n');
  }

  async close() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'close');
    this.child.kill('SIGKILL');
    await ended;
  }
}

/** Runs of some engines over links like this one. @param link undefined: one engine alone */
async function runs(count, link) {
  const caps = [];
  const engines = [];
  const network = link && (await ShapedNetwork.open(count, link));
  const sockets = { sharedKey: randomBytes(32).toString('hex'), hiddenStates: values['hidden-states'] };
  const measured = [];
  let load = 0;
  const end = () => Promise.all(engines.map((engine) => engine.close()));
  stop.addEventListener('abort', end);
  try {
    const peers = Array.from({ length: count - 1 }, (_, at) => `${network.hostOf(at + 1)}:${PORT}`);
    // From the last one: whoever connects finds all of them.
    for (let at = count - 1; at >= 0; at--) {
      const first = Math.round((layers * at) / count);
      const cap = new ProcessorCap(processors, String(at));
      caps.push(cap);
      const engine = new EngineProcess(cap.around(...(network ? network.at(at) : [])), {
        engine: {
          model: values.model,
          ...(count > 1 && { layers: { first, count: Math.round((layers * (at + 1)) / count) - first } }),
          batchSize: number('batch-size'),
          batches: count > 1 ? (values['micro-batches'] === undefined ? count + 1 : number('micro-batches')) : 1,
          threads: 1,
          policy: 'default',
          learn: false,
        },
        ...(at > 0 ? { listen: `${network.hostOf(at)}:${PORT}` } : { rows, ...(count > 1 && { peers }) }),
        run: { maxNewTokens: number('max-new-tokens'), ignoreEos: true, sharePrefixes: false },
        sockets,
      });
      engines.unshift(engine);
      await engine.next();
    }
    const [first, ...followers] = engines;
    for (let turn = 0; turn <= number('repeat'); turn++) {
      first.go();
      const [all, ...each] = await Promise.all([first.next(), ...followers.map((engine) => engine.next())]);
      load = Math.max(load, loadavg()[0]);
      // The first one warms up.
      if (turn === 0) continue;
      const used = [all, ...each].map(({ processorSeconds }) => processorSeconds);
      measured.push({
        ...all,
        tokensPerSecond: all.tokens / all.wallSeconds,
        efficiencies: used.map((seconds) => seconds / (processors * all.wallSeconds)),
      });
    }
  } finally {
    stop.removeEventListener('abort', end);
    await end();
    for (const cap of caps) cap.close();
    const figures = await network?.close();
    if (measured[0] && figures) measured[0].network = figures;
  }
  return { count, link, load, runs: measured };
}

const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
const percent = (share) => `${Math.round(100 * share)}%`;
const alone = await runs(1);
const all = [];
for (const link of LINKS) for (const count of counts) all.push(await runs(count, link));
const results = new Set([alone, ...all].flatMap((each) => each.runs.map((run) => run.results)));
const tokensPerSecond = (each) => median(each.runs.map((run) => run.tokensPerSecond));
if (values['hidden-states'] === 'float32' && results.size > 1)
  throw new Error('found other answers, expected those of one engine in every run');
const table = [alone, ...all].map((each) => ({
  engines: each.count,
  link: each.link?.name ?? 'none',
  tokensPerSecond: tokensPerSecond(each),
  toOne: tokensPerSecond(each) / tokensPerSecond(alone),
  efficiency: median(each.runs.map(({ efficiencies }) => mean(efficiencies))),
  least: median(each.runs.map(({ efficiencies }) => Math.min(...efficiencies))),
  load: each.load,
  lateSeconds: each.runs[0]?.network?.mostLateSeconds ?? 0,
  megabytes: (each.runs[0]?.network?.bytes ?? 0) / 1e6,
}));
process.stdout.write(
  `Engines of one thread in ${processors} processors each, batches of ${values['batch-size']} rows, hidden states in ${values['hidden-states']}; ${results.size === 1 ? 'the same bits everywhere' : `${results.size} different results`}:\n\n${markdownTable(
    [
      'engines',
      'link',
      'tokens/s',
      'to one',
      'efficiency',
      'of the least busy',
      'load average',
      'switch late by',
      'moved',
    ],
    table.map((each) => [
      each.engines,
      each.link,
      each.tokensPerSecond.toFixed(1),
      each.toOne.toFixed(2),
      percent(each.efficiency),
      percent(each.least),
      each.load.toFixed(1),
      `${(1000 * each.lateSeconds).toFixed(0)} ms`,
      `${each.megabytes.toFixed(0)} MB`,
    ]),
  ).join('\n')}\n`,
);
if (values.json)
  writeFileSync(
    values.json,
    `${JSON.stringify({ machine: describeMachine(), flags: values, table, runs: [alone, ...all] }, null, 2)}\n`,
  );
