import type { PipelineLink } from './Machines.js';

/** Sweeps of a micro-batch that are alike. */
export interface PipelineSweeps {
  readonly sweeps: number;
  /** Bytes of hidden states that go from one engine to the next in each. */
  readonly hiddenBytes: number;
  /** Seconds of each stage for one of them. */
  readonly stages: readonly number[];
  /** Which part of their time is prompts; the rest is decoding. */
  readonly promptShare: number;
}

/** Where the time of a pipeline goes. */
export interface PipelineSeconds {
  readonly wall: number;
  /** Of `wall`, what goes to prompts, filling the pipeline with them included. The rest is decoding. */
  readonly prefill: number;
  /** That stages compute or move. */
  readonly busy: readonly number[];
  /** That links behind stages are taken. */
  readonly links: readonly number[];
  /** Of `wall`, that everybody waits for a micro-batch to come round. */
  readonly waiting: number;
}

/**
 * The time of a pipeline. A round, in which each micro-batch advances once, takes as long as the slowest stage or link
 * takes for all of them, or as long as one of them takes to come round, whichever is more. Pure.
 *
 * @param links one behind each stage; back from the last one go tokens, which take no time but the latency
 */
export function pipelineSeconds(
  classes: readonly PipelineSweeps[],
  links: readonly PipelineLink[],
  microBatches: number,
): PipelineSeconds {
  let [wall, prefill, waiting] = [0, 0, 0];
  let filled = false;
  const busy = links.map(() => 0);
  const taken = links.map(() => 0);
  const latency = links.reduce((total, { latencySeconds }) => total + latencySeconds, 0);
  for (const { sweeps, hiddenBytes, stages, promptShare } of classes) {
    const moving = links.map(({ bytesPerSecond }, stage) =>
      stage < links.length - 1 ? hiddenBytes / bytesPerSecond : 0,
    );
    stages.forEach((seconds, stage) => {
      busy[stage] = (busy[stage] ?? 0) + sweeps * microBatches * seconds;
      taken[stage] = (taken[stage] ?? 0) + sweeps * microBatches * (moving[stage] ?? 0);
    });
    const [computing, sent] = [total(stages), total(moving)];
    const around = computing + sent + latency;
    const slowest = microBatches * Math.max(...stages, ...moving);
    // The last stage begins when the first micro-batch has come there.
    const fill = filled ? 0 : computing + sent - Math.max(...stages, ...moving);
    filled = true;
    const seconds = sweeps * Math.max(slowest, around) + fill;
    wall += seconds;
    prefill += seconds * promptShare;
    waiting += sweeps * Math.max(0, around - slowest);
  }
  return { wall, prefill, busy, links: taken, waiting };
}

function total(seconds: readonly number[]): number {
  return seconds.reduce((sum, each) => sum + each, 0);
}
