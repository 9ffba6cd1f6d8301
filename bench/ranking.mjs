// Does the search rank plans as the machine does? For each model and each cap on memory, in a cgroup: the plan that an
// engine takes by itself, beside the best of the plans that the cost model ranks first.
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseHardware, profileMachine } from '../dist/api/plan.js';
import { policyInWords } from './lib/policyInWords.mjs';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { MemoryCap } from './lib/memoryCap.mjs';
import { RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, lastJson, runProcess } from './lib/runProcess.mjs';
import { fastestFirst, rankingReport } from './ranking/report.mjs';

const CANDIDATES = fileURLToPath(new URL('ranking/candidates.mjs', import.meta.url));
const RUNNER = fileURLToPath(new URL('policy/runOnce.mjs', import.meta.url));
const MIB = 2 ** 20;
/**
 * The plan taken, and those that were fastest, run so often more, in turn. Only these runs are compared: whichever of
 * ten was fastest once had luck as well.
 */
const REPEATS = 3;
const FASTEST = 2;

const USAGE = `usage: node bench/ranking.mjs --models FILE,FILE,... [--rows 128,32,...] [--caps 0.5,0.75,1.1] [--plans 10] [--prompt-tokens 24] [--max-new-tokens 16] [--compress-cache none|4bit|8bit] [--only WORD] [--hardware FILE] [--fresh] [--disk FOLDER] [--output FOLDER]
--models: GGUF files; --rows: of each model's runs, in the same order, or of all
--caps: shares of the model's file, each for a cgroup's memory, beside 320 MiB for the process; --plans: how many of those ranked first are run
--only: situations whose name contains the word, e.g. dummy-1b; --hardware: a profile; default: this machine, measured at the start
What is done is kept until all is done, so a bench that was cut off goes on; --fresh begins anew. Needs root (cgroups), Linux`;
const { values, number } = readFlags(USAGE, {
  models: { type: 'string', default: '' },
  rows: { type: 'string', default: '64' },
  caps: { type: 'string', default: '0.5,0.75,1.1' },
  plans: { type: 'string', default: '10' },
  'prompt-tokens': { type: 'string', default: '24' },
  'max-new-tokens': { type: 'string', default: '16' },
  'compress-cache': { type: 'string', default: 'none' },
  only: { type: 'string' },
  hardware: { type: 'string' },
  fresh: { type: 'boolean', default: false },
  disk: { type: 'string', default: join(cacheFolder(), 'repacked') },
  output: { type: 'string', default: RESULTS },
});
const stopping = stopSignal();
/** What a process takes with no weights at all, heap, working memory and some rows' cache included. */
const PROCESS_BYTES = 320 * MIB;
const TIME_LIMIT_SECONDS = 600;

/** The figures of a program that runs under a cap; throws in words. */
async function inCap(capBytes, program, job) {
  const cap = new MemoryCap(capBytes);
  try {
    const output = await runProcess(process.execPath, [program, JSON.stringify(job)], {
      signal: stopping,
      timeLimitSeconds: TIME_LIMIT_SECONDS,
      cgroup: cap.folder,
    });
    stopping.throwIfAborted();
    const found = output.code === 0 && !output.timedOut ? lastJson(output.stdout) : undefined;
    const { oomKills } = cap.figures();
    if (found === undefined || oomKills > 0)
      throw new Error(oomKills > 0 ? 'killed for memory' : howItEnded(output, TIME_LIMIT_SECONDS));
    return { ...found, othersShare: output.othersShare };
  } finally {
    cap.close();
  }
}

/** A plan as options that leave to the engine what it finds by itself for such a block. */
function asOptions({ schedule, batchSize, batches, tokensPerSquare, threads, cache, activations }) {
  const shares = ({ cpu, disk }) => ({ cpu, disk });
  return {
    schedule,
    batchSize,
    batches,
    ...(tokensPerSquare !== undefined && { tokensPerSquare }),
    ...(threads !== undefined && { threads }),
    ...((cache.disk > 0 || activations.disk > 0) && { cache: shares(cache), activations: shares(activations) }),
  };
}

async function rankSituation({ name, path, rows, capBytes }, hardware) {
  const workload = { promptTokens: number('prompt-tokens'), newTokens: number('max-new-tokens'), rows };
  const engine = {
    model: path,
    // The same machine, with as much memory as the group has.
    hardware: {
      ...hardware,
      machine: { ...hardware.machine, memoryBytes: capBytes },
      memory: { ...hardware.memory, cpuBytes: capBytes },
    },
    disk: values.disk,
    policy: 'auto',
    compressCache: values['compress-cache'],
  };
  const run = async (options) => {
    const { seconds, tokens, stats, othersShare } = await inCap(capBytes, RUNNER, {
      engine: { ...engine, ...options },
      rows,
      promptTokens: workload.promptTokens,
      maxNewTokens: workload.newTokens,
    });
    const busy = Object.fromEntries(Object.entries(stats.queues).map(([queue, each]) => [queue, each.busySeconds]));
    return { tokensPerSecond: tokens / seconds, policy: stats.policy, busy, othersShare };
  };
  // What is repacked is so once, under the same cap.
  process.stderr.write(`${name}: repacking, if need be … `);
  await inCap(capBytes, RUNNER, { engine, rows: 1, promptTokens: 2, maxNewTokens: 1 });
  const { taken, plans } = await inCap(capBytes, CANDIDATES, {
    engine: { ...engine, expectedRows: workload },
    plans: number('plans'),
  });
  const entries = [
    { name: `taken: ${policyInWords(taken.policy)}`, predicted: taken.predicted, taken: true, options: {} },
    ...plans.map(({ policy, predicted }) => ({
      name: policyInWords(policy),
      predicted,
      options: asOptions(policy),
    })),
  ].map((entry) => ({ ...entry, runs: [] }));
  const measure = async (entry) => {
    try {
      const figures = await run(entry.options);
      entry.runs.push(figures);
      process.stderr.write(
        `${entry.name}: ${figures.tokensPerSecond.toFixed(1)} tokens/s, predicted ${entry.predicted.toFixed(1)}\n`,
      );
    } catch (error) {
      if (stopping.aborted) throw error;
      entry.failed = error.message;
      process.stderr.write(`${entry.name}: ${error.message}\n`);
    }
  };
  process.stderr.write(`${entries.length} plans\n`);
  for (const entry of entries) await measure(entry);
  const [first, ...others] = entries;
  const compared = [first, ...fastestFirst(others).slice(0, FASTEST)];
  for (let repeat = 0; repeat < REPEATS; repeat++) for (const entry of compared) await measure(entry);
  return { name, model: basename(path), rows, capBytes, workload, entries };
}

async function main() {
  const models = values.models.split(',').filter((path) => path !== '');
  for (const path of models) if (!existsSync(path)) fail(`--models: found no file ${path}`);
  if (models.length === 0) fail(`--models: found nothing, expected GGUF files\n${USAGE}`);
  const list = (flag, words, valid) => {
    const numbers = values[flag].split(',').map(Number);
    if (!numbers.every(valid)) fail(`--${flag}: found ${values[flag]}, expected ${words}, parted by commas`);
    return numbers;
  };
  const rows = list('rows', 'whole numbers', (each) => Number.isInteger(each) && each >= 1);
  const caps = list('caps', 'shares above 0', (each) => each > 0 && each < Infinity);
  if (rows.length !== 1 && rows.length !== models.length)
    fail(`--rows: found ${rows.length} numbers, expected one, or one for each of ${models.length} models`);
  try {
    new MemoryCap(undefined).close();
  } catch (error) {
    fail(error.message);
  }
  mkdirSync(values.disk, { recursive: true });
  const stateFile = join(cacheFolder(), 'ranking-bench.json');
  let state;
  if (!values.fresh && existsSync(stateFile)) {
    state = JSON.parse(readFileSync(stateFile, 'utf8'));
    process.stderr.write(`going on with ${state.situations.length} situations that are done (--fresh begins anew)\n`);
  } else {
    process.stderr.write('measuring the machine …\n');
    state = {
      hardware:
        values.hardware === undefined
          ? await profileMachine({ disk: values.disk })
          : parseHardware(JSON.parse(readFileSync(values.hardware, 'utf8')), values.hardware),
      situations: [],
    };
    writeFileSync(stateFile, JSON.stringify(state));
  }
  const situations = models.flatMap((path, index) =>
    caps.map((share) => ({
      name: `${basename(path).replace(/\.gguf$/, '')} in ${share} of its size`,
      path,
      rows: rows[index] ?? rows[0],
      capBytes: Math.round(share * statSync(path).size) + PROCESS_BYTES,
    })),
  );
  for (const situation of situations) {
    if (values.only !== undefined && !situation.name.includes(values.only)) continue;
    if (state.situations.some(({ name }) => name === situation.name)) continue;
    state.situations.push(await rankSituation(situation, state.hardware));
    writeFileSync(stateFile, JSON.stringify(state));
  }
  if (!situations.every(({ name }) => state.situations.some((done) => done.name === name))) return;
  const document = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(availableParallelism()),
    ...state,
  };
  writeResults(values.output, `ranking-${document.date}`, document, rankingReport(document));
  rmSync(stateFile);
}

await runMain(main, stopping);
