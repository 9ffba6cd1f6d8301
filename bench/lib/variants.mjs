// One workload under several settings of the engine, in turn, so that a slow spell of the machine falls on all; each
// run is a process of its own.
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, machineInWords, QUIET } from './machine.mjs';
import { markdownTable, RESULTS, writeResults } from './results.mjs';
import { howItEnded, lastJson, runProcess } from './runProcess.mjs';
import { median } from './statistics.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const FLAGS = `[--model FILE|ID] [--cpu-memory SIZE] [--resident SHARE] [--rows 64] [--prompt-tokens 64] [--max-new-tokens 32]
  [--batch-size N] [--batches 2] [--threads N] [--runs 3] [--engine-options JSON] [--disk FOLDER] [--output FOLDER]`;
const RESIDENT =
  "--resident: the share of every layer's weights that stays in memory; default: what --cpu-memory leaves room for";

/** Every stage one square ahead: the default. */
export const ALL_AHEAD = { weights: 1, cache: 1, activations: 1 };

const OPTIONS = {
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
  'engine-options': { type: 'string', default: '{}' },
  disk: { type: 'string' },
  output: { type: 'string', default: RESULTS },
  help: { type: 'boolean', default: false },
};

export function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function wholeNumber(values, name) {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < 1)
    fail(`--${name}: found ${values[name]}, expected a whole number of at least 1`);
  return value;
}

/** Fires when this process is told to stop: the run under way must not go on without it. */
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    stopping.abort();
    process.exitCode = signal === 'SIGINT' ? 130 : 143;
  });
}

async function runOnce(job, name, env) {
  const output = await runProcess(process.execPath, [join(HERE, 'runVariant.mjs'), JSON.stringify(job)], {
    signal: stopping.signal,
    env,
  });
  if (stopping.signal.aborted) process.exit();
  const figures = output.code === 0 ? lastJson(output.stdout) : undefined;
  if (figures === undefined) fail(`the run of ${name} failed: ${howItEnded(output)}`);
  return {
    ...figures,
    cpuSeconds: output.cpuSeconds,
    othersShare: output.othersShare,
    peakResidentBytes: output.peakResidentBytes,
  };
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

function markdown({ title, date, machine, version, workload, policy, bytes, summary }) {
  const mib = (count) => Math.round(count / 2 ** 20);
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const [first] = summary;
  const queues = Object.keys(first.busyShare);
  const predicts = summary.some(({ predictedTokensPerSecond }) => predictedTokensPerSecond !== undefined);
  const moved = Object.entries(bytes).flatMap(([what, links]) =>
    Object.entries(links).map(([link, count]) => `${what} ${link} ${mib(count)} MiB`),
  );
  return [
    `# ${title}, ${workload.model}, ${workload.rows} rows, ${workload.promptTokens} + ${workload.maxNewTokens} tokens a row`,
    '',
    `${date}. Spillway ${version}. ${machineInWords(machine)}.`,
    `Weights ${JSON.stringify(policy.weights)}, cache ${JSON.stringify(policy.cache)}, activations ${JSON.stringify(policy.activations)}; batches of ${policy.batchSize}, ${policy.batches} in a block.`,
    `Moved in each run: ${moved.length > 0 ? moved.join(', ') : 'nothing'}. Medians of alternating runs, each a process of its own; loading is not counted.`,
    '',
    ...markdownTable(
      [
        'setting',
        'generated tok/s (slowest-fastest)',
        ...(predicts ? ['predicted'] : []),
        `of ${first.variant}`,
        'seconds',
        ...queues.map((queue) => `${queue} busy`),
        'JavaScript',
        'peak resident MiB',
        'runs',
      ],
      summary.map((entry) => [
        entry.variant,
        `**${entry.generatedTokensPerSecond.toFixed(1)}** (${entry.slowest.toFixed(1)}-${entry.fastest.toFixed(1)})`,
        ...(predicts ? [entry.predictedTokensPerSecond?.toFixed(1) ?? ''] : []),
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

/**
 * The command: runs every variant `--runs` times, and writes the table of medians.
 *
 * @param {{name: string, title: string, own?: object, ownUsage?: string, variants: (context: {values: object, engine:
 * object}) => {name: string, engine?: object, overlap?: boolean,
 *   ahead?: object, stores?: boolean, env?: object}[], explain?: (document: object, context: {model: string, disk: string |
 *   undefined}) => Promise<void> | void}} bench `own`: further flags, as parseArgs takes them; `engine` of a variant: options that
 *   override the common ones; `stores`: whether they run beside computing; `explain` adds to the document's summary before it is written, e.g. what was predicted
 * @returns the flags and the document; nothing after --help
 */
export async function benchVariants({ name, title, own = {}, ownUsage = '', variants: variantsOf, explain }) {
  const { values } = parseArgs({ options: { ...OPTIONS, ...own } });
  if (values.help) {
    process.stdout.write(`usage: node bench/${name}.mjs ${FLAGS}${ownUsage}\n${RESIDENT}\n`);
    return;
  }
  if (!existsSync(join(HERE, '../../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');
  const resident = values.resident === undefined ? undefined : Number(values.resident);
  if (resident !== undefined && !(resident >= 0 && resident <= 1))
    fail(`--resident: found ${values.resident}, expected a share from 0 to 1`);

  const { resolveModel } = await import('../../dist/api/models.js');
  const { version } = JSON.parse(readFileSync(join(HERE, '../../package.json'), 'utf8'));
  const model = await resolveModel(values.model);
  const workload = {
    rows: wholeNumber(values, 'rows'),
    promptTokens: wholeNumber(values, 'prompt-tokens'),
    maxNewTokens: wholeNumber(values, 'max-new-tokens'),
  };
  const engine = {
    model,
    threads: wholeNumber(values, 'threads'),
    batches: wholeNumber(values, 'batches'),
    ...(values['batch-size'] === undefined ? {} : { batchSize: wholeNumber(values, 'batch-size') }),
    ...(values['cpu-memory'] === undefined ? {} : { cpuMemory: values['cpu-memory'] }),
    ...(values.disk === undefined ? {} : { disk: values.disk }),
    ...(resident === undefined ? {} : { weights: { cpu: resident, disk: 1 - resident } }),
    ...JSON.parse(values['engine-options']),
  };
  const variants = variantsOf({ values, engine });
  const runs = wholeNumber(values, 'runs');
  const done = [];
  // A model that streams is repacked by whoever opens it first; that is not to fall on the first figure.
  await runOnce(
    { engine, ...workload, rows: 1, maxNewTokens: 1, overlap: true, ahead: ALL_AHEAD, stores: true },
    'the warm-up',
  );
  for (let run = 1; run <= runs; run++) {
    // Every other round begins at the other end.
    for (const variant of run % 2 === 1 ? variants : [...variants].reverse()) {
      const { overlap = true, ahead = ALL_AHEAD, stores = true } = variant;
      const figures = await runOnce(
        { engine: { ...engine, ...variant.engine }, ...workload, overlap, ahead, stores },
        variant.name,
        variant.env,
      );
      done.push({ variant: variant.name, ...figures });
      process.stderr.write(
        `run ${run} of ${runs}: ${variant.name}, ${figures.generatedTokensPerSecond.toFixed(1)} generated tokens/s\n`,
      );
    }
  }
  const document = {
    title,
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
  await explain?.(document, { model, disk: values.disk });
  const share = resident === undefined ? '' : `-resident-${resident}`;
  const file = `${name}-${document.date}-${basename(model).replace(/\.gguf$/, '')}-${workload.rows}x${workload.promptTokens}+${workload.maxNewTokens}${share}`;
  writeResults(values.output, file, document, markdown(document));
  return { values, document };
}
