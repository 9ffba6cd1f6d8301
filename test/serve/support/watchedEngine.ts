import type { EngineActivity, TaskStretch } from '../../../src/RunStats.js';
import type { WatchedEngine } from '../../../src/serve/watch/JobWatch.js';

const GIB = 2 ** 30;

/** An engine that computes, loads and stores by the clock: for pages that show one. */
export function watchedEngine(): WatchedEngine {
  const begun = performance.now() / 1000;
  const lane = (at: number, queue: string, names: readonly string[], period: number, busy: number): TaskStretch[] =>
    Array.from({ length: Math.floor(Math.min(10, at - begun + 10) / period) }, (_, back) => {
      const turn = Math.floor(at / period) - back - 1;
      const start = turn * period;
      return { queue, name: names[Math.abs(turn) % names.length] ?? '', start, end: start + busy * period, tasks: 4 };
    });
  return {
    name: 'model',
    plan: [
      ['Origin', 'planned for this machine'],
      ['Block', '2 x 64 rows'],
      ['Schedule', 'diagonal'],
      ['Weights', '60% CPU, 40% disk'],
      ['Expected', '130 tokens/s'],
    ],
    activity: (): EngineActivity => {
      const at = performance.now() / 1000;
      const seconds = at - begun;
      return {
        at,
        tokens: { prompt: Math.round(900 * seconds), generated: Math.round(130 * seconds) },
        queues: {
          'cpu-compute': { busySeconds: 0.83 * seconds, tasks: 100, bytes: 0 },
          'disk-read': { busySeconds: 0.46 * seconds, tasks: 100, bytes: 2.4 * GIB * seconds },
          'disk-write': { busySeconds: 0.05 * seconds, tasks: 9, bytes: 0.1 * GIB * seconds },
        },
        memory: {
          cpu: { capacityBytes: 16 * GIB, usedBytes: 12.4 * GIB, peakBytes: 13 * GIB },
          disk: { capacityBytes: 64 * GIB, usedBytes: 63.9 * GIB, peakBytes: 63.9 * GIB },
        },
        stretches: [
          ...lane(at, 'cpu-compute', ['compute'], 0.12, 0.83),
          ...lane(at, 'disk-read', ['load_weight', 'load_weight', 'load_cache'], 0.2, 0.46),
          ...lane(at, 'disk-write', ['store_cache'], 0.8, 0.1),
        ].filter(({ end }) => end <= at),
      };
    },
  };
}
