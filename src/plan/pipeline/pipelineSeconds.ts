import type { PipelineLink } from './Machines.js';

/** Sweeps of a micro-batch that are alike. */
export interface PipelineSweeps {
  readonly sweeps: number;
  /** Bytes of hidden states that go from one engine to the next in each. */
  readonly hiddenBytes: number;
  /** Seconds of each stage for one of them. */
  readonly stages: readonly number[];
  /** Seconds from one to the next in each stage, where they come directly one after the other. */
  readonly apart: readonly number[];
  /** Which part of their time is prompts; the rest is decoding. */
  readonly promptShare: number;
  /** How often those of another class come directly after these, by its index. */
  readonly next: ReadonlyMap<number, number>;
}

/** Where the time of a pipeline goes. */
export interface PipelineSeconds {
  readonly wall: number;
  /** The seconds of `wall` that go to prompts, filling the pipeline with them included. The rest is decoding. */
  readonly prefill: number;
  /** That stages compute or move. */
  readonly busy: readonly number[];
  /** That links after stages are taken. */
  readonly links: readonly number[];
  /** The seconds of `wall` that everybody waits for a micro-batch to come round. */
  readonly waiting: number;
}

/**
 * The time of a pipeline. A round, in which each micro-batch advances once, takes as long as the slowest stage or link
 * takes for all of them, or as long as one of them takes to come round, whichever is more. Where longer sweeps come
 * after short ones (the next rows' prompts after new tokens), a pipeline that is full of the short ones has to be
 * filled with the long ones: stages after the first wait for them as they did at the start. Pure.
 *
 * @param links one after each stage; back from the last one go tokens, which take no time but the latency
 */
export function pipelineSeconds(
  classes: readonly PipelineSweeps[],
  links: readonly PipelineLink[],
  microBatches: number,
): PipelineSeconds {
  let [wall, prefill, waiting] = [0, 0, 0];
  const busy = links.map(() => 0);
  const taken = links.map(() => 0);
  const rounds = classes.map((each) => roundOf(each, links, microBatches));
  const filled = classes.map(() => 0);
  filled[0] = rounds[0]?.fill ?? 0;
  classes.forEach(({ next }, before) => {
    const short = rounds[before];
    for (const [behind, times] of next) {
      const long = rounds[behind];
      if (!short || !long) continue;
      // Those that go round with time to spare catch up on some of it.
      const spare = Math.max(0, long.around - long.slowest);
      filled[behind] = (filled[behind] ?? 0) + times * Math.max(0, long.fill - short.fill - spare);
    }
  });
  classes.forEach(({ sweeps, stages, promptShare }, index) => {
    const { moving, slowest, around } = rounds[index] ?? { moving: [], slowest: 0, around: 0 };
    const round = Math.max(slowest, around);
    stages.forEach((seconds, stage) => {
      busy[stage] = (busy[stage] ?? 0) + sweeps * Math.min(microBatches * seconds, round);
      taken[stage] = (taken[stage] ?? 0) + sweeps * microBatches * (moving[stage] ?? 0);
    });
    const seconds = sweeps * round + (filled[index] ?? 0);
    wall += seconds;
    prefill += seconds * promptShare;
    waiting += sweeps * Math.max(0, around - slowest);
  });
  return { wall, prefill, busy, links: taken, waiting };
}

interface Round {
  /** Seconds that each link is taken by one micro-batch. */
  readonly moving: readonly number[];
  /** That the slowest stage or link takes for all of them, and that one takes to come round. */
  readonly slowest: number;
  readonly around: number;
  /** Until the first one has come to the last stage; or until the others are through after it, if that is sooner. */
  readonly fill: number;
}

function roundOf(
  { hiddenBytes, stages, apart }: Pick<PipelineSweeps, 'hiddenBytes' | 'stages' | 'apart'>,
  links: readonly PipelineLink[],
  microBatches: number,
): Round {
  const moving = links.map(({ bytesPerSecond }, stage) =>
    stage < links.length - 1 ? hiddenBytes / bytesPerSecond : 0,
  );
  const way = total(stages) + total(moving);
  const latency = total(links.map(({ latencySeconds }) => latencySeconds));
  const around = way + latency;
  // To save what it can, a stage needs the next one there that much before the one at hand is through.
  const periods = stages.map((seconds, stage) => {
    const saving = seconds - (apart[stage] ?? seconds);
    const early = (microBatches * seconds - around - saving) / microBatches;
    return seconds - Math.max(0, Math.min(saving, early));
  });
  const most = Math.max(...periods, ...moving);
  return {
    moving,
    slowest: microBatches * most,
    around,
    fill: Math.min(way - most, (microBatches - 1) * most),
  };
}

function total(seconds: readonly number[]): number {
  return seconds.reduce((sum, each) => sum + each, 0);
}
