// What overlapping is worth: the same rows with all stages overlapping, with none, and with each stage's look-ahead taken away in turn.
// Runs alternate, so that a slow spell of the machine falls on all; each run is a process of its own. Figures are medians.
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, machineInWords, QUIET } from './lib/machine.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, lastJson, runProcess } from './lib/runProcess.mjs';
import { median } from './lib/statistics.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const USAGE = `usage: node bench/ablation.mjs [--model FILE|ID] [--cpu-memory SIZE] [--resident SHARE] [--rows 64] [--prompt-tokens 64] [--max-new-tokens 32]
  [--batch-size N] [--batches 2] [--threads N] [--runs 3] [--overlap on|off|both] [--engine-options JSON] [--disk FOLDER] [--output FOLDER]
--resident: the share of every layer's weights that stays in memory; default: what --cpu-memory leaves room for`;

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2-135m-instruct' },
    'cpu-memory': { type: 'string' },
    resident: { type: 'string' },
    rows: { type: 'string', default: '64' },
    'prompt-tokens': { type: 'string', default: '64' },
    'max-new-tokens': { type: 'string', default: '32' },
    'batch-size': { type: 'string' },
    batches: { type: 'string', default: '2' },
    threads: { type: 'string', default: String(availableParallelism()) },
    runs: { type: 'string', default: '3' },
    overlap: { type: 'string', default: 'both' },
    'engine-options': { type: 'string', default: '{}' },
    disk: { type: 'string' },
    output: { type: 'string', default: RESULTS },
    help: { type: 'boolean', default: false },
  },
});

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function wholeNumber(name) {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < 1) fail(`--${name}: found ${values[name]}, expected a whole number of at least 1`);
  return value;
}

const ALL_AHEAD = { weights: 1, cache: 1, activations: 1 };
const VARIANTS = [
  { name: 'overlap on', overlap: true, ahead: ALL_AHEAD },
  ...Object.keys(ALL_AHEAD).map((stage) => ({ name: `on, ${stage} not ahead`, overlap: true, ahead: { ...ALL_AHEAD, [stage]: 0 } })),
  { name: 'overlap off', overlap: false, ahead: ALL_AHEAD },
];

/** Fires when this process is told to stop: the run under way must not go on without it. */
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    stopping.abort();
    process.exitCode = signal === 'SIGINT' ? 130 : 143;
  });
}

async function runOnce(job, name) {
  const output = await runProcess(process.execPath, [join(HERE, 'ablation/runOnce.mjs'), JSON.stringify(job)], { signal: stopping.signal });
  if (stopping.signal.aborted) process.exit();
  const figures = output.code === 0 ? lastJson(output.stdout) : undefined;
  if (figures === undefined) fail(`the run of ${name} failed: ${howItEnded(output)}`);
  return { ...figures, cpuSeconds: output.cpuSeconds, othersShare: output.othersShare, peakResidentBytes: output.peakResidentBytes };
}

function summarize(variant, runs) {
  const own = runs.filter((run) => run.variant === variant.name);
  const of = (key) => median(own.map((run) => run[key]));
  const queues = [...new Set(own.flatMap((run) => Object.keys(run.busyShare)))];
  return {
    variant: variant.name,
    runs: own.length,
    generatedTokensPerSecond: of('generatedTokensPerSecond'),
    slowest: Math.min(...own.map((run) => run.generatedTokensPerSecond)),
    fastest: Math.max(...own.map((run) => run.generatedTokensPerSecond)),
    seconds: of('seconds'),
    peakResidentBytes: of('peakResidentBytes'),
    orchestration: of('orchestration'),
    busyShare: Object.fromEntries(queues.map((queue) => [queue, median(own.map((run) => run.busyShare[queue] ?? 0))])),
    disturbedRuns: own.filter((run) => (run.othersShare ?? 0) > QUIET).length,
  };
}

function markdown({ date, machine, version, workload, policy, bytes, summary }) {
  const mib = (count) => Math.round(count / 2 ** 20);
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const [first] = summary;
  const queues = Object.keys(first.busyShare);
  const moved = Object.entries(bytes).flatMap(([what, links]) => Object.entries(links).map(([link, count]) => `${what} ${link} ${mib(count)} MiB`));
  return [
    `# Overlap, ${workload.model}, ${workload.rows} rows, ${workload.promptTokens} + ${workload.maxNewTokens} tokens a row`,
    '',
    `${date}. Spillway ${version}. ${machineInWords(machine)}.`,
    `Weights ${JSON.stringify(policy.weights)}, cache ${JSON.stringify(policy.cache)}, activations ${JSON.stringify(policy.activations)}; batches of ${policy.batchSize}, ${policy.batches} in a block.`,
    `Moved in each run: ${moved.length > 0 ? moved.join(', ') : 'nothing'}. Medians of alternating runs, each a process of its own; loading is not counted.`,
    '',
    ...markdownTable(
      ['stages', 'generated tok/s (slowest-fastest)', `of ${first.variant}`, 'seconds', ...queues.map((queue) => `${queue} busy`), 'JavaScript', 'peak resident MiB', 'runs'],
      summary.map((entry) => [
        entry.variant,
        `**${entry.generatedTokensPerSecond.toFixed(1)}** (${entry.slowest.toFixed(1)}-${entry.fastest.toFixed(1)})`,
        (entry.generatedTokensPerSecond / first.generatedTokensPerSecond).toFixed(2),
        entry.seconds.toFixed(2),
        ...queues.map((queue) => percent(entry.busyShare[queue] ?? 0)),
        percent(entry.orchestration),
        mib(entry.peakResidentBytes),
        `${entry.runs}${entry.disturbedRuns > 0 ? ` (${entry.disturbedRuns} disturbed)` : ''}`,
      ]),
    ),
    '',
    `Busy: the queue's share of the wall time. Disturbed: others took more than ${QUIET * 100}% of the machine meanwhile.`,
    '',
  ].join('\n');
}

async function main() {
  if (values.help) { process.stdout.write(`${USAGE}\n`); return; }
  if (!['on', 'off', 'both'].includes(values.overlap)) fail(`--overlap: found ${values.overlap}, expected on, off or both`);
  if (!existsSync(join(HERE, '../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');
  const resident = values.resident === undefined ? undefined : Number(values.resident);
  if (resident !== undefined && !(resident >= 0 && resident <= 1)) fail(`--resident: found ${values.resident}, expected a share from 0 to 1`);

  const { resolveModel } = await import('../dist/index.js');
  const { version } = JSON.parse(readFileSync(join(HERE, '../package.json'), 'utf8'));
  const model = await resolveModel(values.model);
  const workload = { rows: wholeNumber('rows'), promptTokens: wholeNumber('prompt-tokens'), maxNewTokens: wholeNumber('max-new-tokens') };
  const engine = {
    model,
    threads: wholeNumber('threads'),
    batches: wholeNumber('batches'),
    ...(values['batch-size'] === undefined ? {} : { batchSize: wholeNumber('batch-size') }),
    ...(values['cpu-memory'] === undefined ? {} : { cpuMemory: values['cpu-memory'] }),
    ...(values.disk === undefined ? {} : { disk: values.disk }),
    ...(resident === undefined ? {} : { weights: { cpu: resident, disk: 1 - resident } }),
    ...JSON.parse(values['engine-options']),
  };
  const variants = VARIANTS.filter(({ overlap }) => values.overlap === 'both' || overlap === (values.overlap === 'on'));
  const runs = wholeNumber('runs');
  const done = [];
  // A model that streams is repacked by whoever opens it first; that is not to fall on the first figure.
  await runOnce({ engine, ...workload, rows: 1, maxNewTokens: 1, overlap: true, ahead: ALL_AHEAD }, 'the warm-up');
  for (let run = 1; run <= runs; run++) {
    // Every other round begins at the other end.
    for (const variant of run % 2 === 1 ? variants : [...variants].reverse()) {
      const figures = await runOnce({ engine, ...workload, overlap: variant.overlap, ahead: variant.ahead }, variant.name);
      done.push({ variant: variant.name, ...figures });
      process.stderr.write(`run ${run} of ${runs}: ${variant.name}, ${figures.generatedTokensPerSecond.toFixed(1)} generated tokens/s\n`);
    }
  }
  const document = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(engine.threads),
    version,
    workload: { model: basename(model), ...workload },
    engine: { ...engine, model: basename(model), disk: undefined },
    policy: done[0].policy,
    bytes: done[0].bytes,
    summary: variants.map((variant) => summarize(variant, done)),
    runs: done,
  };
  const name = `ablation-${document.date}-${basename(model).replace(/\.gguf$/, '')}-${workload.rows}x${workload.maxNewTokens}`;
  writeResults(values.output, name, document, markdown(document));
}

await main();
