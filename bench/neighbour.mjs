// Throughput beside a busy neighbour: the same run with and without another process that computes on all processors, in
// turn. A fair scheduler leaves half of the machine. What a tool loses beyond that, it loses by waiting: for threads
// that are not running.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { describeMachine, machineInWords } from './lib/machine.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, runProcess } from './lib/runProcess.mjs';
import { median } from './lib/statistics.mjs';
import { writeSyntheticRows } from './lib/syntheticRows.mjs';
import { batchedBench, nodeLlamaCpp, spillway } from './peers/contenders.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const USAGE = `usage: node bench/neighbour.mjs [--model FILE|ID] [--rows 64] [--prompt-tokens 64] [--max-new-tokens 32] [--runs 3] [--threads N] [--burn-threads N]
  [--tools spillway,node-llama-cpp,llama.cpp] [--time-limit 300] [--llama-cpp PROGRAM] [--output FOLDER]
--tools: default spillway; the others as bench/peers.mjs needs them`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string', default: 'smollm2-135m-instruct' },
  rows: { type: 'string', default: '64' },
  'prompt-tokens': { type: 'string', default: '64' },
  'max-new-tokens': { type: 'string', default: '32' },
  runs: { type: 'string', default: '3' },
  threads: { type: 'string', default: String(availableParallelism()) },
  'burn-threads': { type: 'string', default: String(availableParallelism()) },
  tools: { type: 'string', default: 'spillway' },
  'time-limit': { type: 'string', default: '300' },
  'llama-cpp': { type: 'string', default: join(cacheFolder(), 'build-llama.cpp/bin/llama-batched-bench') },
  output: { type: 'string', default: RESULTS },
});
const stopping = stopSignal();
const timeLimitSeconds = number('time-limit');

/** Starts the neighbour. @returns what ends it */
async function startNeighbour() {
  const child = spawn(
    process.execPath,
    [join(HERE, 'neighbour/burn.mjs'), values['burn-threads'], String(timeLimitSeconds + 60)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit');
  const [first] = await Promise.race([once(child.stdout, 'data'), ended]);
  if (!String(first).startsWith('burning')) fail(`the neighbour did not start (${String(first)})`);
  return async () => {
    child.kill('SIGKILL');
    await ended;
  };
}

async function runOnce({ contender, setting }, job, busy) {
  const { program, args } = contender.command({ ...job, model: contender.model }, setting);
  const stopNeighbour = busy ? await startNeighbour() : undefined;
  try {
    const output = await runProcess(program, args, { signal: stopping, timeLimitSeconds });
    stopping.throwIfAborted();
    if (output.timedOut) throw new Error(howItEnded(output, timeLimitSeconds));
    const { generatedTokensPerSecond, seconds, version } = contender.figures({ ...output, timeLimitSeconds });
    return { tool: contender.tool, version, busy, generatedTokensPerSecond, seconds, othersShare: output.othersShare };
  } catch (error) {
    stopping.throwIfAborted();
    return { tool: contender.tool, busy, failed: error.message };
  } finally {
    await stopNeighbour?.();
  }
}

function summarize(tool, runs) {
  const of = (busy) => {
    const own = runs.filter((run) => run.tool === tool && run.busy === busy);
    return own.some(({ failed }) => failed !== undefined)
      ? undefined
      : median(own.map((run) => run.generatedTokensPerSecond));
  };
  const [alone, busy] = [of(false), of(true)];
  return {
    tool,
    alone,
    busy,
    ratio: alone === undefined || busy === undefined ? undefined : busy / alone,
    failures: [...new Set(runs.filter((run) => run.tool === tool).flatMap(({ failed }) => failed ?? []))],
  };
}

function report({ date, machine, workload, summary, runs }) {
  const fixed = (value) => (value === undefined ? '-' : value.toFixed(1));
  const othersAlone = runs
    .filter(({ busy, othersShare }) => !busy && othersShare !== undefined)
    .map(({ othersShare }) => othersShare);
  return [
    `# ${workload.model} beside a busy neighbour`,
    '',
    `${date}. ${machineInWords(machine)}.`,
    `${workload.rows} rows, ${workload.promptTokens} prompt tokens and ${workload.maxNewTokens} new ones each; the neighbour computes on ${workload.burnThreads} threads. Medians of ${workload.runs} runs each way, in turn.`,
    '',
    ...markdownTable(
      ['tool', 'generated tok/s alone', 'beside the neighbour', 'of it'],
      summary.map(({ tool, alone, busy, ratio, failures }) => [
        tool,
        fixed(alone),
        fixed(busy),
        ratio === undefined ? failures.join('; ') : `**${(100 * ratio).toFixed(0)}%**`,
      ]),
    ),
    '',
    ...(othersAlone.length === 0
      ? []
      : [`In the runs alone, others took at most ${(100 * Math.max(...othersAlone)).toFixed(0)}% of the machine.`, '']),
  ].join('\n');
}

async function main() {
  if (!existsSync(join(HERE, '../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');
  const { readModel, resolveModel } = await import('../dist/api/models.js');
  const model = await resolveModel(values.model);
  const { decoder } = await readModel(model);
  const [rows, promptTokens] = [number('rows'), number('prompt-tokens')];
  const known = {
    spillway: { contender: spillway('spillway', model), setting: {} },
    'node-llama-cpp': { contender: nodeLlamaCpp('node-llama-cpp', model), setting: { sequences: 32 } },
    'llama.cpp': {
      contender: batchedBench('llama.cpp', 'llama.cpp', model, values['llama-cpp'], []),
      setting: { sequences: 32 },
    },
  };
  const tools = values.tools.split(',').map((name) => name.trim());
  const unknown = tools.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) fail(`--tools: found ${unknown}, expected some of ${Object.keys(known).join(', ')}`);

  const scratch = mkdtempSync(join(tmpdir(), 'spillway-neighbour-'));
  try {
    const prompts = writeSyntheticRows(join(scratch, 'prompts.jsonl'), {
      rows,
      promptTokens,
      vocabularySize: decoder.vocabularySize,
    });
    const job = {
      prompts,
      rows,
      maxNewTokens: number('max-new-tokens'),
      threads: number('threads'),
      meanPromptTokens: promptTokens,
    };
    const done = [];
    for (let run = 1; run <= number('runs'); run++) {
      for (const tool of tools) {
        for (const busy of run % 2 === 1 ? [false, true] : [true, false]) {
          const figures = await runOnce(known[tool], job, busy);
          done.push(figures);
          process.stderr.write(
            `run ${run} of ${values.runs}: ${tool} ${busy ? 'beside the neighbour' : 'alone'}: ${figures.failed ?? `${figures.generatedTokensPerSecond.toFixed(1)} generated tokens/s`}\n`,
          );
        }
      }
    }
    const document = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(job.threads),
      workload: {
        model: basename(model),
        rows,
        promptTokens,
        maxNewTokens: job.maxNewTokens,
        runs: number('runs'),
        burnThreads: number('burn-threads'),
      },
      summary: tools.map((tool) => summarize(tool, done)),
      runs: done,
    };
    writeResults(
      values.output,
      `neighbour-${document.date}-${basename(model).replace(/\.gguf$/, '')}-${rows}rows`,
      document,
      report(document),
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await runMain(main, stopping);
