// Spillway beside node-llama-cpp, on the same model file and the same prompts, in one run on one machine.
// Greedy decoding, every row gets exactly the same number of new tokens. Runs alternate, so that a slow spell of the machine
// falls on both; each run is a process of its own. Figures are medians.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machineFacts, measured, median, QUIET } from './measure.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const TOOLS = {
  spillway: join(HERE, 'peers/runSpillway.mjs'),
  'node-llama-cpp': join(HERE, 'peers/runNodeLlamaCpp.mjs'),
};

const USAGE = `usage: node bench/peers.mjs [--model FILE|ID] [--rows 256] [--max-new-tokens 64] [--runs 3] [--threads N]
  [--sequences 32] [--batch-size N] [--only spillway|node-llama-cpp] [--output FOLDER]
needs: npm ci --ignore-scripts --prefix bench/peers`;

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2-135m-instruct' },
    rows: { type: 'string', default: '256' },
    'max-new-tokens': { type: 'string', default: '64' },
    runs: { type: 'string', default: '3' },
    threads: { type: 'string', default: String(availableParallelism()) },
    sequences: { type: 'string', default: '32' },
    'batch-size': { type: 'string' },
    only: { type: 'string' },
    output: { type: 'string', default: join(HERE, 'results') },
    help: { type: 'boolean', default: false },
  },
});

function wholeNumber(name) {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < 1) fail(`--${name}: found ${values[name]}, expected a whole number of at least 1`);
  return value;
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Fires when this process is told to stop: the run under way must not go on without it. */
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    stopping.abort();
    process.exitCode = signal === 'SIGINT' ? 130 : 143;
  });
}

async function runOnce(tool, job) {
  const figures = await measured(TOOLS[tool], job, stopping.signal).catch((error) => {
    if (stopping.signal.aborted) process.exit();
    return fail(`the run of ${tool} failed:\n${error.stderr || error.message}`);
  });
  return { tool, ...figures };
}

/** Tokens that both tools chose alike, counted to each row's first difference: after one, texts go apart. */
function agreement(mine, theirs) {
  let same = 0;
  let rowsAlike = 0;
  let all = 0;
  mine.forEach((row, index) => {
    const first = row.findIndex((token, at) => token !== theirs[index][at]);
    same += first === -1 ? row.length : first;
    rowsAlike += first === -1 ? 1 : 0;
    all += row.length;
  });
  return { rowsAlike, rows: mine.length, tokensBeforeFirstDifference: same, tokens: all };
}

function summarize(tool, runs) {
  const own = runs.filter((run) => run.tool === tool);
  if (own.length === 0) return [];
  const of = (key) => median(own.map((run) => run[key]));
  const spread = own.map((run) => run.generatedTokensPerSecond);
  return [{
    tool,
    version: own[0].version,
    runs: own.length,
    generatedTokensPerSecond: of('generatedTokensPerSecond'),
    slowest: Math.min(...spread),
    fastest: Math.max(...spread),
    promptTokensPerSecond: of('promptTokensPerSecond'),
    seconds: of('seconds'),
    loadSeconds: of('loadSeconds'),
    peakResidentBytes: of('peakResidentBytes'),
    disturbedRuns: own.filter((run) => (run.othersShare ?? 0) > QUIET).length,
    settings: own[0].settings,
  }];
}

function markdown({ date, machine, workload, summary, ratio, agreement: alike }) {
  const mib = (bytes) => Math.round(bytes / 2 ** 20);
  const rows = summary.map((entry) =>
    `| ${entry.tool} ${entry.version} | **${entry.generatedTokensPerSecond.toFixed(1)}** (${entry.slowest.toFixed(1)}-${entry.fastest.toFixed(1)}) | ` +
    `${entry.promptTokensPerSecond.toFixed(1)} | ${entry.seconds.toFixed(1)} | ${entry.loadSeconds.toFixed(2)} | ${mib(entry.peakResidentBytes)} | ` +
    `${entry.runs}${entry.disturbedRuns > 0 ? ` (${entry.disturbedRuns} disturbed)` : ''} |`);
  return [
    `# ${workload.model}, ${workload.rows} rows, ${workload.maxNewTokens} new tokens a row, greedy`,
    '',
    `${date}. ${machine.processor}, ${machine.threads} of ${machine.processors} threads, ${mib(machine.memoryBytes)} MiB, ${machine.system}, node ${machine.node}.`,
    `${workload.promptTokens} prompt tokens, ${workload.generatedTokens} generated. Medians of alternating runs, each a process of its own; loading is not counted in the rates.`,
    '',
    '| tool | generated tok/s (slowest-fastest) | prompt tok/s | seconds | load seconds | peak resident MiB | runs |',
    '|-|-|-|-|-|-|-|',
    ...rows,
    '',
    ...(ratio === undefined ? [] : [`Spillway generates ${ratio.toFixed(2)} times as many tokens a second as node-llama-cpp.`]),
    ...(alike === undefined ? [] : [
      `Both round activations to 8 bits in ways of their own: ${alike.rowsAlike} of ${alike.rows} rows have the same tokens throughout, ` +
      `and ${((100 * alike.tokensBeforeFirstDifference) / alike.tokens).toFixed(1)}% of all tokens stand before a row's first difference.`,
    ]),
    `Disturbed: others took more than ${QUIET * 100}% of the machine meanwhile.`,
    '',
  ].join('\n');
}

async function main() {
  if (values.help) { process.stdout.write(`${USAGE}\n`); return; }
  const tools = values.only === undefined ? Object.keys(TOOLS) : [values.only];
  if (tools.some((tool) => !(tool in TOOLS))) fail(`--only: found ${values.only}, expected ${Object.keys(TOOLS).join(' or ')}`);
  if (!existsSync(join(HERE, 'peers/node_modules'))) fail('the peers are not installed: npm ci --ignore-scripts --prefix bench/peers');
  if (!existsSync(join(HERE, '../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');

  const { resolveModel } = await import('../dist/index.js');
  const { makePrompts } = await import('./peers/makePrompts.mjs');
  const model = await resolveModel(values.model);
  const runs = wholeNumber('runs');
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-peers-'));
  try {
    const prompts = join(scratch, 'prompts.jsonl');
    writeFileSync(prompts, makePrompts(wholeNumber('rows')).map((row) => `${JSON.stringify(row)}\n`).join(''));
    const job = {
      model,
      prompts,
      rows: wholeNumber('rows'),
      maxNewTokens: wholeNumber('max-new-tokens'),
      threads: wholeNumber('threads'),
      sequences: wholeNumber('sequences'),
      ...(values['batch-size'] === undefined ? {} : { batchSize: wholeNumber('batch-size') }),
    };
    const done = [];
    for (let run = 1; run <= runs; run++) {
      // Every other round starts with the other tool.
      for (const tool of run % 2 === 1 ? tools : [...tools].reverse()) {
        const figures = await runOnce(tool, { ...job, tokensFile: join(scratch, `${tool}.json`) });
        done.push(figures);
        process.stderr.write(`run ${run} of ${runs}: ${tool} ${figures.generatedTokensPerSecond.toFixed(1)} generated tokens/s\n`);
      }
    }
    if (done.some(({ promptTokens }) => promptTokens !== done[0].promptTokens)) fail('the tools count different prompt tokens: the figures would not compare');
    const tokensOf = (tool) => JSON.parse(readFileSync(join(scratch, `${tool}.json`), 'utf8'));
    const summary = tools.flatMap((tool) => summarize(tool, done));
    const both = tools.length === 2;
    const document = {
      date: new Date().toISOString().slice(0, 10),
      machine: { ...machineFacts(), threads: job.threads },
      workload: {
        model: basename(model), sha256: createHash('sha256').update(readFileSync(model)).digest('hex'), rows: job.rows, maxNewTokens: job.maxNewTokens,
        promptTokens: done[0].promptTokens, generatedTokens: done[0].generatedTokens,
        promptsSha256: createHash('sha256').update(readFileSync(prompts)).digest('hex'),
      },
      summary,
      ...(both ? { ratio: summary[0].generatedTokensPerSecond / summary[1].generatedTokensPerSecond, agreement: agreement(tokensOf('spillway'), tokensOf('node-llama-cpp')) } : {}),
      runs: done,
    };
    mkdirSync(values.output, { recursive: true });
    const name = join(values.output, `peers-${document.date}-${basename(model).replace(/\.gguf$/, '')}-${job.rows}x${job.maxNewTokens}${both ? '' : `-${tools[0]}`}`);
    writeFileSync(`${name}.json`, `${JSON.stringify(document, null, 2)}\n`);
    writeFileSync(`${name}.md`, markdown(document));
    process.stdout.write(markdown(document));
    process.stderr.write(`written: ${name}.json and .md\n`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await main();
