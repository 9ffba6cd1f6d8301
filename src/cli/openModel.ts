import type { CommandContext } from './CommandContext.js';
import { resolveModel, type ProfileProgress } from './library.js';
import type { ProgressMeter } from './ProgressMeter.js';

const MIB = 2 ** 20;

/** The path of a model, which is fetched first if it is an id that `pull` knows. */
export function pulledModel(idOrPath: string, signal: AbortSignal, meter: ProgressMeter): Promise<string> {
  return resolveModel(idOrPath, {
    signal,
    onProgress: ({ model, source, bytes, totalBytes }) =>
      meter.show(`fetching ${model}`, {
        done: Math.ceil(bytes / MIB),
        total: Math.ceil(totalBytes / MIB),
        words: `MiB from ${source}`,
      }),
  });
}

/** For `Engine.open`: shows how much of the weights is loaded, or repacked. */
export function showLoading(meter: ProgressMeter, what = 'loading weights'): (bytes: number, totalBytes: number) => void {
  return (bytes, totalBytes) => {
    meter.show(what, { done: Math.ceil(bytes / MIB), total: Math.ceil(totalBytes / MIB), words: 'MiB' });
  };
}

/** Measuring this machine takes a few seconds, once: said in a line, and shown as it goes on. */
export function showProfiling(meter: ProgressMeter, context: CommandContext): (progress: ProfileProgress) => void {
  let said = false;
  return ({ done, total, what }) => {
    if (!said) context.say('measuring this machine, once, for the plan (some seconds) …');
    said = true;
    meter.show('measuring this machine', { done, total, words: what });
  };
}
