import type { CommandContext } from './CommandContext.js';
import { describeEnginePlan } from './generateReport.js';
import {
  readModelShape,
  resolveModel,
  type EngineOptions,
  type PlanRequest,
  type ProfileProgress,
  type PullProgress,
} from './library.js';
import { withMeter, type ProgressMeter } from './ProgressMeter.js';

const MIB = 2 ** 20;

/** The path of a model, which is fetched first if it is an id that `pull` knows. */
export function pulledModel(idOrPath: string, signal: AbortSignal, meter: ProgressMeter): Promise<string> {
  return resolveModel(idOrPath, { signal, onProgress: showFetching(meter) });
}

/** The sizes of a model, which is fetched where that is the only way to learn them, as a person should see. */
export async function shapeOf(model: string, { signal }: CommandContext): Promise<PlanRequest['shape']> {
  return withMeter((meter) => readModelShape(model, { signal, onProgress: showFetching(meter) }));
}

export function showFetching(meter: ProgressMeter): (progress: PullProgress) => void {
  return ({ model, source, bytes, totalBytes }) => {
    meter.show(`fetching ${model}`, {
      done: Math.ceil(bytes / MIB),
      total: Math.ceil(totalBytes / MIB),
      words: `MiB from ${source}`,
    });
  };
}

/**
 * Callbacks of `Engine.open`: how much of the weights is hashed, repacked, loaded; and, in a line, who is waited for.
 */
export function showOpening(
  meter: ProgressMeter,
  context: CommandContext,
): Pick<EngineOptions, 'onIdentify' | 'onWait' | 'onRepack' | 'onLoad'> {
  return {
    onIdentify: showIdentifying(meter),
    onWait: ({ path, pid }) => {
      const who = pid === undefined ? 'another process' : `process ${pid}`;
      context.say(`waiting for ${who}, which is repacking this model into ${path} …`);
    },
    onRepack: showLoading(meter, 'repacking for disk'),
    onLoad: showLoading(meter),
  };
}

/** Hashing a model's files, which happens once. */
export function showIdentifying(meter: ProgressMeter): (bytes: number, totalBytes: number) => void {
  return showLoading(meter, 'reading the model, once, to know it again');
}

function showLoading(meter: ProgressMeter, what = 'loading weights'): (bytes: number, totalBytes: number) => void {
  return (bytes, totalBytes) => {
    meter.show(what, { done: Math.ceil(bytes / MIB), total: Math.ceil(totalBytes / MIB), words: 'MiB' });
  };
}

/** Callbacks of `Engine.open`: measuring this machine, and what was planned, in lines. */
export function showPlanning(
  meter: ProgressMeter,
  context: CommandContext,
): Pick<EngineOptions, 'onProfile' | 'onPlan'> {
  return {
    onProfile: showProfiling(meter, context),
    onPlan: (plan) => {
      for (const note of plan.notes ?? []) context.say(note);
      const words = describeEnginePlan(plan);
      if (words !== undefined) context.say(words);
    },
  };
}

/** Measuring this machine takes a few seconds, once: said in a line, and shown as it goes on. */
function showProfiling(meter: ProgressMeter, context: CommandContext): (progress: ProfileProgress) => void {
  let said = false;
  return ({ done, total, what }) => {
    if (!said) context.say('measuring this machine, once, for the plan (some seconds) …');
    said = true;
    meter.show('measuring this machine', { done, total, words: what });
  };
}
