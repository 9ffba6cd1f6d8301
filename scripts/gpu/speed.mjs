// Tokens/s of one shape under caps, by the plan that `auto` makes for this machine, beside what the plan's cost model
// says of the run: its roofline for this link and this GPU.
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { againstCap, sampleDriver } from './driverMemory.mjs';
import { capsOf, layersThatFit, roomOf, rowsInTime } from './fitToMachine.mjs';
import { makeOptModel } from './makeOptModel.mjs';
import { optBytes, wholeShape } from './optShapes.mjs';
import { uniformRows } from './tokenRows.mjs';

const seconds = (began) => (performance.now() - began) / 1000;

/** The block that is best for many rows, before the model is opened; then the rows that are run. */
async function planRows(library, { hardware, modelPath, workload, caps, wantedSeconds, mostSeconds }) {
  const shape = await library.readModelShape(modelPath);
  const choice = library.choosePolicy({
    hardware,
    shape,
    workload,
    allow: { mostBatchSize: 256 },
    caps: { gpu: caps.gpuBytes, cpu: Math.max(1, caps.cpuBytes - process.memoryUsage.rss()) },
  });
  return rowsInTime(choice, workload.newTokens, wantedSeconds, mostSeconds);
}

const SAID_EVERY_SECONDS = 5;

/** What happens, for the log of whoever wonders why it takes so long. */
function say(text) {
  console.log(`${seconds(0).toFixed(1)} s: ${text}`);
}

/**
 * Runs the rows. Where the time limit stops it, what is known counts: `stopped` says how far it came.
 * @returns the run's statistics, with `tasks`: seconds and number by kind of task, of those that ended
 */
async function generate(engine, work, { signal }) {
  let [stats, progress] = [];
  let saidAt = -Infinity;
  const tasks = {};
  try {
    const run = {
      maxNewTokens: work.newTokens,
      ignoreEos: true,
      signal,
      onStats: (each) => (stats = each),
      onTrace: ({ ph, name, dur }) => {
        if (ph !== 'X') return;
        const task = (tasks[name.replace(/ L\d+/, '')] ??= { seconds: 0, count: 0 });
        task.seconds += dur / 1e6;
        task.count++;
      },
      onProgress: (each) => {
        progress = each;
        if (each.seconds - saidAt < SAID_EVERY_SECONDS) return;
        saidAt = each.seconds;
        const { rowsDone, promptTokens, generatedTokens } = each;
        say(`${rowsDone} of ${work.rows} rows, ${promptTokens} prompt tokens, ${generatedTokens} generated`);
      },
    };
    for await (const row of engine.generate(uniformRows(work), run))
      if (row.error) throw new Error(`row ${row.id}: ${row.error.message}`);
  } catch (error) {
    if (!signal?.aborted || stats === undefined) throw error;
    const all = work.rows * work.newTokens;
    const stopped = `the time limit, with ${progress?.generatedTokens ?? 0} of ${all} tokens made`;
    say(`stopped by ${stopped}`);
    return { ...stats, tasks, stopped };
  }
  return { ...stats, tasks };
}

/**
 * Makes a model of the shape, or of as many of its layers as there is room for, plans, generates some blocks of rows,
 * removes the model.
 * @param shape as in optShapes.mjs
 * @param caps gpuBytes, cpuBytes: asked for; the machine may have less
 * @param folder for the model and what spills
 * @param hardware this machine's profile, with its GPU
 * @param wantedSeconds how long the run should take by prediction, and `mostSeconds` at most; less where
 * `secondsLeft()` is less
 * @param readDriver as in driverMemory.mjs, or undefined; `before`: what it said when this process had done nothing yet
 * @returns what was measured, what was predicted of the very run, their share; the policy; how the shape was cut
 */
export async function measureSpeed({
  library,
  name,
  shape,
  caps: asked,
  folder,
  hardware,
  promptTokens = 512,
  newTokens = 32,
  wantedSeconds,
  mostSeconds = Infinity,
  secondsLeft = () => Infinity,
  readDriver,
  before,
  signal,
}) {
  const room = await roomOf(folder);
  const caps = capsOf(room, asked);
  const layers = layersThatFit(shape, room, caps);
  const about = {
    name,
    layers,
    layersOfModel: shape.layers,
    caps,
    askedCaps: asked,
    promptTokens,
    newTokens,
  };
  if (layers < 1)
    return {
      ...about,
      notMeasured: `no layer of it fits: ${room.diskBytes} bytes of disk and ${room.memoryBytes} bytes of memory are free`,
    };
  const scratch = await mkdtemp(join(folder, 'model-'));
  const modelPath = join(scratch, name);
  try {
    const cut = { ...shape, layers };
    const began = performance.now();
    await makeOptModel(modelPath, cut, signal);
    const makeSeconds = seconds(began);
    say(`made the model in ${makeSeconds.toFixed(1)} s`);
    // Opening takes about as long as writing did, and a prediction may be off by half.
    const most = Math.min(mostSeconds, Math.max(1, (secondsLeft() - makeSeconds) / 2));
    const rows = await planRows(library, {
      hardware,
      modelPath,
      workload: { promptTokens, newTokens },
      caps,
      wantedSeconds,
      mostSeconds: most,
    });
    say(`${rows} rows are planned`);
    const sampler = readDriver && sampleDriver(readDriver, 1000);
    let [stats, engine, peak] = [];
    try {
      engine = await library.Engine.open({
        model: modelPath,
        hardware,
        learn: false,
        gpuMemory: caps.gpuBytes,
        cpuMemory: caps.cpuBytes,
        disk: scratch,
        expectedRows: { promptTokens, newTokens, rows },
        ...(signal && { signal }),
      });
      say(`opened: ${JSON.stringify(engine.plan.policy)}`);
      const work = { rows, promptTokens, newTokens, vocabularySize: wholeShape(shape).vocabularySize };
      stats = await generate(engine, work, { signal });
    } finally {
      await engine?.close();
      peak = await sampler?.stop();
    }
    const { tokensPerSecond, predicted, memory, queues, seconds: spent, residentPeakBytes, policy } = stats;
    const { tasks, stopped, unpinnedBytes } = stats;
    // Before there was no context: what CUDA itself takes is in it, so nothing is said of the cap.
    const driver = before && { ...againstCap(before, peak, caps.gpuBytes), within: undefined };
    return {
      ...about,
      rows,
      modelBytes: optBytes(cut).total,
      makeSeconds,
      openSeconds: spent.load,
      runSeconds: spent.wall - spent.load,
      prefillSeconds: spent.prefill,
      decodeSeconds: spent.decode,
      tokensPerSecond: tokensPerSecond.generated,
      origin: engine.plan.origin,
      ...(engine.plan.why !== undefined && { why: engine.plan.why }),
      policy: engine.plan.policy ?? policy,
      ...(predicted && {
        predictedTokensPerSecond: predicted.tokensPerSecond,
        shareOfPredicted: tokensPerSecond.generated / predicted.tokensPerSecond,
        bottleneck: predicted.bottleneck,
        predictedQueueSeconds: predicted.queueSeconds,
      }),
      queues,
      tasks,
      ...(stopped !== undefined && { stopped }),
      unpinnedBytes,
      memory,
      residentPeakBytes,
      ...(driver && { driver }),
    };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
