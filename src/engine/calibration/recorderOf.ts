import { RunRecorder, type RecorderSetup } from '../execution/RunRecorder.js';
import { joulesDrawn } from '../execution/EnergyCounters.js';
import type { PagePool } from '../memory/PagePool.js';
import { memoryUse, type Opened } from '../open/Opened.js';
import type { RunForecast, SeenRun } from './RunForecast.js';
import { spendingMeter } from '../../plan/spending.js';
import type { Policy } from '../../plan/Policy.js';
import type { RunOptions } from '../rows/Generation.js';

/** Who is told of a run, and whether its stages are ours. */
export type RecordedOptions = Pick<RunOptions, 'onProgress' | 'onStats' | 'onTrace' | 'onDelta' | 'pipeline'>;

/** A run of an engine, for whoever counts what it does. */
export interface RecordedRun {
  /** Path of the model. */
  readonly model: string;
  readonly beginToken: number | undefined;
  readonly loadSeconds: number;
  readonly forecast: RunForecast;
  readonly pool: PagePool;
  readonly schedule: string;
  readonly timings?: SeenRun['timings'];
  /** As in `RecorderSetup`. */
  readonly computed?: RecorderSetup['computed'];
  /** The run that a call joins, which takes down its tasks. */
  readonly joins?: RunRecorder | undefined;
}

export function recorderOf(
  opened: Pick<Opened, 'settings' | 'grid' | 'gpu' | 'cache' | 'reserved'>,
  { model, beginToken, loadSeconds, forecast, pool, schedule, timings, computed, joins }: RecordedRun,
  { onProgress, onStats, onTrace, onDelta, pipeline }: RecordedOptions,
): RunRecorder {
  const products = opened.gpu?.options.products ?? 'own';
  const { sparseAttention, precision } = opened.settings.numerics;
  const setup: RecorderSetup = {
    model,
    beginToken,
    policy: {
      schedule,
      ...forecast.block,
      sparseAttention,
      precision,
      ...(products !== 'own' && { gpuProducts: products }),
      // What a run says it had is a policy for the next one.
    } satisfies Omit<Policy, 'schedule'> & { readonly schedule: string },
    loadSeconds,
    unpinnedBytes: opened.reserved.unpinnedBytes,
    // A GPU's energy is not among what the processor counts.
    spending: spendingMeter(forecast.rates, opened.gpu ? undefined : joulesDrawn),
    memory: () => memoryUse(opened, pool),
    lengths: forecast.drift,
    forecast: (totals, shared) => forecast.of({ schedule, totals, ownStages: pipeline !== undefined, shared, timings }),
    timings,
    computed,
    onProgress,
    onStats,
    onTrace,
    onDelta,
  };
  return new RunRecorder(setup, joins);
}
