// Runs whose weights or cache stream to the GPU: how much of the copies happens while something is computed, and whether
// the GPU's memory stays below the cap by the driver's own count.
import { againstCap, sampleDriver } from './driverMemory.mjs';
import { overlapOfTrace } from './overlapOfTrace.mjs';
import { uniformRows } from './tokenRows.mjs';

const [THERE, IN_MEMORY] = [
  { gpu: 1, cpu: 0, disk: 0 },
  { gpu: 0, cpu: 1, disk: 0 },
];
/**
 * What streams: weights, all of them over the link, or some from the disk first; the cache, all of it, or half while the
 * processor attends to the other half. That and attention on the processor alone show what both at once are worth.
 */
export const STREAMED = {
  'weights in memory': { weights: IN_MEMORY, cache: THERE },
  'weights in memory and on disk': { weights: { gpu: 0.4, cpu: 0.4, disk: 0.2 }, cache: THERE },
  'cache in memory, comes to the GPU': { weights: THERE, cache: IN_MEMORY, cpuAttention: false },
  'cache in memory, half of it comes': { weights: THERE, cache: IN_MEMORY, cpuAttention: 0.5 },
  'cache in memory, attention on the processor': { weights: THERE, cache: IN_MEMORY, cpuAttention: true },
};

async function runOnce(engine, work, run) {
  let stats;
  for await (const row of engine.generate(uniformRows(work), {
    maxNewTokens: work.newTokens,
    ignoreEos: true,
    ...run,
    onStats: (each) => (stats = each),
  })) {
    if (row.error) throw new Error(`row ${row.id}: ${row.error.message}`);
  }
  return stats;
}

/** The smallest cap that an engine of these options works with: what it says when it is refused. */
async function smallestCap(library, options) {
  try {
    const engine = await library.Engine.open({ ...options, gpuMemory: 1000 });
    await engine.close();
  } catch (error) {
    if (error instanceof library.MemoryBudgetError && error.tier === 'gpu') return error.neededBytes;
    throw error;
  }
  throw new Error('an engine opened with 1000 bytes of GPU memory');
}

/**
 * @param model path, vocabularySize, rows, promptTokens, newTokens, batches, gpuMemory
 * @param readDriver as in driverMemory.mjs; undefined where there is no driver to ask
 * @returns for each placement: `overlapping` and `serial` (one stage after another, for comparison), as
 * `overlapOfTrace` has them with tokens/s, and `memory`, as
 *   `againstCap` has it with the engine's own peak; or an `error`
 */
export async function streaming({
  library,
  model: { path, gpuMemory, batches, ...work },
  disk,
  readDriver,
  placements = STREAMED,
  onCase = () => {},
}) {
  const cases = [];
  const batchSize = Math.ceil(work.rows / batches);
  for (const [placement, shares] of Object.entries(placements)) {
    const options = {
      model: path,
      policy: 'default',
      disk,
      batchSize,
      batches,
      rowTokens: work.promptTokens + work.newTokens,
      tokensPerSquare: Math.max(512, batchSize),
      ...shares,
    };
    try {
      const memory = await rehearse(library, options, work, readDriver);
      const sampler = readDriver && sampleDriver(readDriver);
      let runs;
      try {
        runs = await bothWays(library, { ...options, gpuMemory }, work);
      } finally {
        memory.peak = await sampler?.stop();
      }
      const counted = memory.before && againstCap(memory.before, memory.peak, library.parseBytes(gpuMemory));
      cases.push({
        placement,
        ...runs,
        ...(counted && { memory: counted }),
        ok: counted === undefined || counted.within,
      });
    } catch (error) {
      cases.push({ placement, error: error.message, ok: false });
    }
    onCase(cases.at(-1), cases);
  }
  return cases;
}

/**
 * A run within the smallest cap, so that all kernels are loaded: what the driver counts when its engine is closed is
 * the context's own.
 */
async function rehearse(library, options, work, readDriver) {
  if (readDriver === undefined) return {};
  const small = { ...work, rows: Math.min(work.rows, 2), promptTokens: Math.min(work.promptTokens, 80), newTokens: 3 };
  const engine = await library.Engine.open({
    ...options,
    batchSize: 1,
    gpuMemory: await smallestCap(library, { ...options, batchSize: 1 }),
  });
  try {
    await runOnce(engine, small, {});
  } finally {
    await engine.close();
  }
  return { before: await readDriver() };
}

async function bothWays(library, options, work) {
  const engine = await library.Engine.open(options);
  try {
    const runs = {};
    // A run that does not count comes first: it finds pages of files in memory, and clocks up.
    await runOnce(engine, { ...work, newTokens: Math.min(4, work.newTokens) }, {});
    for (const [name, pipeline] of [
      ['overlapping', undefined],
      ['serial', library.serialPipeline],
    ]) {
      const trace = [];
      const stats = await runOnce(engine, work, {
        onTrace: (event) => trace.push(event),
        ...(pipeline && { pipeline }),
      });
      runs[name] = { ...overlapOfTrace(trace), tokensPerSecond: stats.tokensPerSecond.generated };
      runs.enginePeakBytes = stats.memory.gpu.peakBytes;
    }
    return runs;
  } finally {
    await engine.close();
  }
}
