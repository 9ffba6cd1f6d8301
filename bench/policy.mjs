// Holds the cost model to account: real runs on this machine, predicted and measured, and the chosen policy beside a
// grid of others. Every run is predicted by the profile as the machine is just then, corrected by what the runs before
// it took, and by the profile alone. Every run is a process of its own, in an order that spreads the kinds over time.
// What is done is kept, so a bench that was cut off goes on.
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseHardware, predict, profileMachine, readModelShape } from '../dist/api/plan.js';
import { atSpeed } from '../dist/plan/atSpeed.js';
import { speedNow } from '../dist/profile/speedNow.js';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { policyInWords } from './lib/policyInWords.mjs';
import { RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, lastJson, runProcess } from './lib/runProcess.mjs';
import { casesOf, gridOf, policyOf } from './policy/cases.mjs';
import { correctionsAfter } from './policy/learned.mjs';
import { attemptsOf, choicesOf, errorsOf, policyReport } from './policy/report.mjs';

const RUNNER = fileURLToPath(new URL('policy/runOnce.mjs', import.meta.url));
const MIB = 2 ** 20;
/**
 * What a process takes with no weights at all, heap and working memory included: on top of the share of the model that
 * a cap leaves room for.
 */
const PROCESS_BYTES = 240 * MIB;
/**
 * Where disk, products or memory are faster just after a run than just before, or slower, by more than this, the run
 * was of no one machine: it is made again.
 */
const SAME_SPEED = 1.2;
/** So often at most. */
const ATTEMPTS = 2;
/** How often the chosen plan and the best of its grid run in turn, each, after both have run once. */
const REPEATS = 2;
/** Rows that a run has at least and at most. */
const ROWS = [4, 2048];

const USAGE = `usage: node bench/policy.mjs --models FILE,FILE,... [--seconds 10] [--only WORD] [--grid on|off] [--quick] [--hardware FILE] [--fresh] [--disk FOLDER] [--output FOLDER]
--models: GGUF files, e.g. of SmolLM2 and of bench/models/makeDummy.py (1b, 3b, 7b); a model of more than 300 MB gets fewer rows
The chosen policy is set against a grid for the first model and the last.
--seconds: about how long a run is to take; --only: runs whose name contains the word; --quick: four runs of each model, no grid
--hardware: a profile; default: this machine, measured at the start; --fresh: forget what an earlier bench, cut off, had done`;
const { values, number } = readFlags(USAGE, {
  models: { type: 'string' },
  seconds: { type: 'string', default: '10' },
  only: { type: 'string' },
  grid: { type: 'string', default: 'on' },
  quick: { type: 'boolean', default: false },
  hardware: { type: 'string' },
  fresh: { type: 'boolean', default: false },
  disk: { type: 'string', default: join(cacheFolder(), 'repacked') },
  output: { type: 'string', default: RESULTS },
});
const stopping = stopSignal();

/**
 * The profile that everything is predicted by, and what has been done with it. The one that is kept for everybody else
 * stays, and so does what runs taught of it.
 */
async function begin(file) {
  if (!values.fresh && existsSync(file)) {
    const state = JSON.parse(readFileSync(file, 'utf8'));
    process.stderr.write(
      `going on with ${state.runs.length} runs of ${state.profile.measuredAt} (--fresh begins anew)\n`,
    );
    return state;
  }
  process.stderr.write('measuring the machine …\n');
  const hardware =
    values.hardware === undefined
      ? await profileMachine({ disk: values.disk })
      : parseHardware(JSON.parse(readFileSync(values.hardware, 'utf8')), values.hardware);
  return { profile: { measuredAt: new Date().toISOString(), hardware }, runs: [] };
}

/** As many rows as the machine should need the wanted time for, in whole blocks where that is possible. */
function rowsFor({ block, promptTokens, maxNewTokens }, shape, hardware) {
  const places = block.batchSize * (block.batches ?? 1);
  const plan = predict(
    { hardware, shape, workload: { promptTokens, newTokens: maxNewTokens, rows: 4 * places } },
    policyOf({ ...block, weights: block.weights ?? 0 }),
  );
  const rows = (plan.rows * number('seconds')) / plan.wallSeconds;
  const whole = rows > places ? Math.round(rows / places) * places : Math.ceil(rows);
  return Math.min(ROWS[1], Math.max(ROWS[0], Math.min(places, 8), whole));
}

/** All runs, those of one model far from each other. */
async function planned(models, hardware) {
  const lists = [];
  for (const [at, path] of models.entries()) {
    const { size } = statSync(path);
    const shape = await readModelShape(path);
    const common = (each) => ({
      model: basename(path).replace(/\.gguf$/, ''),
      path,
      promptTokens: each.promptTokens,
      maxNewTokens: each.maxNewTokens,
      ...(each.capShare !== undefined && { cpuMemory: Math.round(each.capShare * size + PROCESS_BYTES) }),
    });
    const cases = casesOf(size).map((each) => ({
      ...common(each),
      name: each.name,
      block: each.block,
      rows: rowsFor(each, shape, hardware),
    }));
    const grid = gridOf(size).flatMap((situation) => {
      // All of a situation do the same work: what its middle block needs the wanted time for.
      const rows = rowsFor({ ...situation, block: situation.blocks[1] }, shape, hardware);
      return [undefined, ...situation.blocks].map((block) => ({
        ...common(situation),
        grid: situation.name,
        rows,
        block,
        ...(block === undefined ? { name: 'chosen', auto: true } : { name: `${block.batches} x ${block.batchSize}` }),
      }));
    });
    lists.push([
      ...(values.quick ? cases.filter((_, index) => index % 3 === 0) : cases),
      ...(values.quick || values.grid === 'off' || (at > 0 && at < models.length - 1) ? [] : grid),
    ]);
  }
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, index) => lists.flatMap((list) => list.slice(index, index + 1)))
    .flat()
    .filter(
      ({ name, model, grid = '' }) => values.only === undefined || `${model} ${grid} ${name}`.includes(values.only),
    );
}

function keyOf({ model, grid = '', name, rows, repeat = 0 }) {
  return [model, grid, name, rows, repeat].join('|');
}

/**
 * The chosen plan and the best of its grid again, in turn: one run of each is decided by whichever spell the machine
 * has just then.
 */
function repeated(jobs, runs) {
  return choicesOf(runs).flatMap(({ name, best }) => {
    const ofThese = jobs.filter(({ model, grid }) => grid !== undefined && `${model} ${grid}` === name);
    const pair = [ofThese.find(({ auto }) => auto), ofThese.find((job) => !job.auto && job.name === best)];
    return Array.from({ length: REPEATS }, (_, index) => pair.map((job) => ({ ...job, repeat: index + 1 }))).flat();
  });
}

/** The machine for the next run: as fast as it is now, and as the runs before it found it. */
async function machineNow({ profile, runs }) {
  const machineSpeed = await speedNow(profile.hardware, values.disk, stopping);
  const corrections = correctionsAfter(runs);
  return {
    machineSpeed,
    hardware: { ...atSpeed(profile.hardware, machineSpeed), ...(corrections && { corrections }) },
  };
}

async function runOnce({ path, block, cpuMemory, rows, promptTokens, maxNewTokens, auto }, { machineSpeed, hardware }) {
  const engine = {
    model: path,
    hardware,
    disk: values.disk,
    ...(auto
      ? {}
      : block.weights !== undefined || cpuMemory === undefined
        ? { policy: policyOf(block) }
        : { policy: 'auto', ...openWeights(policyOf(block)) }),
    ...(cpuMemory !== undefined && { cpuMemory }),
  };
  const output = await runProcess(
    process.execPath,
    [RUNNER, JSON.stringify({ engine, rows, promptTokens, maxNewTokens })],
    { signal: stopping, timeLimitSeconds: 30 * number('seconds') },
  );
  stopping.throwIfAborted();
  const found = output.code === 0 && !output.timedOut ? lastJson(output.stdout) : undefined;
  if (found === undefined) return { failed: howItEnded(output, 30 * number('seconds')) };
  const { stats, seconds, tokens } = found;
  const { predicted, corrections } = stats;
  return {
    measured: tokens / seconds,
    predicted: predicted?.tokensPerSecond,
    predictedAlone: corrections?.uncorrectedTokensPerSecond,
    machineSpeed,
    applied: corrections?.applied,
    work: corrections?.work,
    undisturbed: corrections?.undisturbed,
    policy: policyInWords(stats.policy),
    seconds,
    loadSeconds: stats.seconds.load,
    queues: Object.fromEntries(Object.entries(stats.queues).map(([name, { busySeconds }]) => [name, busySeconds])),
    predictedQueues: predicted?.queueSeconds,
    memoryBytes: Object.fromEntries(Object.entries(stats.memory).map(([tier, { peakBytes }]) => [tier, peakBytes])),
    predictedMemoryBytes: predicted?.memoryBytes,
    residentPeakBytes: stats.residentPeakBytes,
    orchestration: stats.orchestration.fractionOfWall,
    prefillSeconds: stats.seconds.prefill,
    decodeSeconds: stats.seconds.decode,
    predictedPrefillSeconds: predicted?.prefillSeconds,
    predictedDecodeSeconds: predicted?.decodeSeconds,
    othersShare: output.othersShare,
  };
}

/** Whether the machine was another one after a run than before it. The disk counts where it was used. */
function changedSpeed({ machineSpeed, queues }, after) {
  const used =
    (queues['disk-read'] ?? 0) + (queues['disk-write'] ?? 0) > 0
      ? ['memory', 'fewRows', 'manyRows', 'disk']
      : ['memory', 'fewRows', 'manyRows'];
  return used.some((name) => Math.abs(Math.log((after[name] ?? 1) / (machineSpeed[name] ?? 1))) > Math.log(SAME_SPEED));
}

/**
 * One run, and again where the machine changed its speed meanwhile. What such attempts gave is kept beside the last
 * one.
 */
async function runSteadily(job, state) {
  const attempts = [];
  for (;;) {
    const figures = await runOnce(job, await machineNow(state));
    if (figures.failed !== undefined) return figures;
    const speedAfter = await speedNow(state.profile.hardware, values.disk, stopping);
    const changed = changedSpeed(figures, speedAfter);
    if (!changed || attempts.length + 1 === ATTEMPTS) return { ...figures, speedAfter, changed, attempts };
    const { measured, predicted, predictedAlone, machineSpeed } = figures;
    attempts.push({ measured, predicted, predictedAlone, machineSpeed, speedAfter });
    process.stderr.write(`${measured.toFixed(1)} tokens/s, but the machine changed its speed; again … `);
  }
}

/** Under a cap, what the case says of the block stands, and weights are placed as they fit. */
function openWeights({ schedule, batchSize, batches, compressCache, compressWeights, cache, activations }) {
  const shares = ({ cpu, disk }) => ({ cpu, disk });
  return {
    schedule,
    batchSize,
    batches,
    compressCache,
    compressWeights,
    cache: shares(cache),
    activations: shares(activations),
  };
}

async function main() {
  const models = (values.models ?? '').split(',').filter((path) => path !== '');
  for (const path of models) if (!existsSync(path)) fail(`--models: found no file ${path}`);
  if (models.length === 0) fail(`--models: found nothing, expected GGUF files\n${USAGE}`);
  mkdirSync(values.disk, { recursive: true });
  const stateFile = join(cacheFolder(), 'policy-bench.json');
  const state = await begin(stateFile);
  const { hardware } = state.profile;
  const jobs = await planned(models, hardware);
  const runAll = async (list) => {
    const known = new Set(state.runs.map(keyOf));
    for (const [index, job] of list.entries()) {
      if (known.has(keyOf(job))) continue;
      process.stderr.write(
        `${index + 1} of ${list.length}: ${job.model}, ${job.grid === undefined ? '' : `${job.grid}: `}${job.name}, ${job.rows} rows … `,
      );
      const figures = await runSteadily(job, state);
      // Where the model lies is nobody's business.
      state.runs.push({ ...job, path: undefined, ...figures });
      process.stderr.write(
        `${figures.failed ?? `${figures.measured.toFixed(1)} tokens/s, predicted ${figures.predicted?.toFixed(1) ?? 'nothing'}, by the profile alone ${figures.predictedAlone?.toFixed(1) ?? 'nothing'}`}\n`,
      );
      writeFileSync(stateFile, JSON.stringify(state));
    }
  };
  await runAll(jobs);
  await runAll(
    repeated(
      jobs,
      state.runs.filter(({ repeat }) => repeat === undefined),
    ),
  );
  const done = state.runs.filter(({ failed }) => failed === undefined);
  const attempts = attemptsOf(done);
  const document = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(availableParallelism()),
    quick: values.quick,
    profile: state.profile,
    error: errorsOf(done),
    errorAlone: errorsOf(done, 'predictedAlone'),
    errorOfAllAttempts: errorsOf(attempts),
    choices: choicesOf(state.runs),
    runs: state.runs,
  };
  writeResults(
    values.output,
    `policy-${document.date}${values.quick ? '-quick' : ''}`,
    document,
    policyReport(document),
  );
  rmSync(stateFile);
}

await runMain(main, stopping);
