import { describe, expect, test } from '@jest/globals';
import { CpuContention, type MachineClocks } from '../../../src/engine/calibration/CpuContention.js';
import { TaskTimings } from '../../../src/engine/calibration/TaskTimings.js';
import { correctionsOf, learn, type Learned } from '../../../src/engine/calibration/learn.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import type { Hop, QueueName, TaskEvent } from '../../../src/engine/grid/Task.js';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { predict, settingOf } from '../../../src/plan/predict.js';
import { simulatePlan, type SimulatedPlan } from '../../../src/simulatePlan.js';
import { builtIn, CPU_MACHINE } from '../../plan/support/hardware.js';

/** A model of eight large layers: its runs take minutes of virtual time, and few tasks. */
const shape = { ...requireKnownShape('opt-6.7b'), layers: 8 };
const workload = { promptTokens: 48, newTokens: 24, rows: 48 };
const everyDecode = (factor: number): Record<string, number> =>
  Object.fromEntries([1, 4, 16, 64, 256, 1024].map((tokens) => [`compute.decode.f16.${tokens}`, factor]));
/** The machine of the profile is slower than it says where it decodes. */
const slower = (factor: number): HardwareProfile => ({ ...CPU_MACHINE, corrections: everyDecode(factor) });

const IN_MEMORY = parsePolicy({ schedule: 'diagonal', batchSize: 16, batches: 2 }, 'test');
const STREAMED = parsePolicy({ ...IN_MEMORY, weights: { cpu: 0.1, disk: 0.9 } }, 'test');

/** A simulated run on a machine as it is, and what it adds to what is known of its profile. */
async function run(
  truth: HardwareProfile,
  learned: Learned,
  policy = IN_MEMORY,
): Promise<{ simulated: SimulatedPlan; learned: Learned; predicted: ReturnType<typeof predict> }> {
  const corrections = correctionsOf(learned);
  const profile = { ...CPU_MACHINE, ...(corrections && { corrections }) };
  const predicted = predict({ hardware: profile, shape, workload }, policy);
  const timings = new TaskTimings(
    settingOf({ hardware: profile, shape, workload }, policy).setting,
    policy,
    corrections,
  );
  const simulated = await simulatePlan({ hardware: truth, shape, workload }, policy, { timings });
  return { simulated, predicted, learned: learn(learned, timings.end().work, 1) };
}

async function runs(
  truths: readonly HardwareProfile[],
  policy = IN_MEMORY,
): Promise<Awaited<ReturnType<typeof run>>[]> {
  const all = [];
  let learned: Learned = {};
  for (const truth of truths) {
    const each = await run(truth, learned, policy);
    learned = each.learned;
    all.push(each);
  }
  return all;
}

const errorOf = ({ simulated, predicted }: Awaited<ReturnType<typeof run>>): number =>
  Math.abs(predicted.tokensPerSecond / simulated.tokensPerSecond - 1);

describe('runs on a machine that decodes 30% slower than its profile says', () => {
  test('are predicted within five percent after three of them', async () => {
    const all = await runs([slower(1.3), slower(1.3), slower(1.3), slower(1.3)]);
    // The first one is predicted by the profile alone.
    expect(errorOf(all[0] as Awaited<ReturnType<typeof run>>)).toBeGreaterThan(0.12);
    expect(errorOf(all[3] as Awaited<ReturnType<typeof run>>)).toBeLessThan(0.05);
    // Prompts are as fast as they should be; they hardly take over what rows beside them in a square took longer.
    const prompts = Object.entries(correctionsOf(all[2]?.learned ?? {}) ?? {}).filter(([kind]) =>
      kind.startsWith('compute.prefill'),
    );
    expect(prompts.length).toBeGreaterThan(0);
    for (const [, factor] of prompts) expect(Math.abs(factor - 1)).toBeLessThan(0.02);
  });

  test('one of which was disturbed, three times as slow, stay so', async () => {
    const all = await runs([slower(1.3), slower(1.3), slower(1.3), slower(3.9), slower(1.3), slower(1.3)]);
    for (const at of [4, 5]) expect(errorOf(all[at] as Awaited<ReturnType<typeof run>>)).toBeLessThan(0.05);
  });
});

test('corrections do not correct themselves: a machine that is as its profile says stays so', async () => {
  const all = await runs([CPU_MACHINE, CPU_MACHINE, CPU_MACHINE, CPU_MACHINE]);
  for (const [kind, factor] of Object.entries(correctionsOf(all[3]?.learned ?? {}) ?? {}))
    expect([kind, Math.round(factor * 100) / 100]).toEqual([kind, 1]);
});

test('a disk that is slower than measured is known after three runs that stream', async () => {
  const disk = { ...CPU_MACHINE, links: { diskReadBytesPerSecond: 1e9 / 1.3, diskWriteBytesPerSecond: 8e8 } };
  const all = await runs([disk, disk, disk, disk], STREAMED);
  expect(correctionsOf(all[2]?.learned ?? {})?.['disk.read']).toBeGreaterThan(1.24);
  expect(all[3]?.predicted.queueSeconds['disk-read']).toBeGreaterThan(
    0.95 * (all[3]?.simulated.queueSeconds['disk-read'] ?? 0),
  );
});

test('what computing shares with the disk is not taken for slowness', async () => {
  // The simulated tasks do not slow down while data come from the disk; the model's profile seconds have that time in
  // them.
  const { learned } = await run(CPU_MACHINE, {}, STREAMED);
  for (const [kind, { lastLogRatio }] of Object.entries(learned))
    if (kind.startsWith('compute.')) expect(lastLogRatio).toBeLessThanOrEqual(1e-9);
});

test('the plan of a corrected machine is the same each time, and no worse with more memory or a faster disk', () => {
  const hardware = {
    ...slower(1.7),
    corrections: { ...everyDecode(1.7), 'compute.prefill.f16.256': 0.6, 'disk.read': 1.5, between: 9, overlap: 1.4 },
  };
  const best = (machine: HardwareProfile, cpu: number): number =>
    choosePolicy({
      hardware: machine,
      shape,
      workload: { promptTokens: 48, newTokens: 24 },
      caps: { cpu },
      allow: { schedules: ['zigzag'], batchSize: 8, batches: 4 },
    }).predicted.tokensPerSecond;
  const gib = 2 ** 30;
  const speeds = [2, 3, 4, 6].map((size) => best(hardware, size * gib));
  expect(speeds).toEqual([2, 3, 4, 6].map((size) => best(hardware, size * gib)));
  for (const [i, speed] of speeds.entries()) expect(speed).toBeGreaterThanOrEqual((speeds[i - 1] ?? 0) * 0.99);
  const faster = { ...hardware, links: { diskReadBytesPerSecond: 3e9, diskWriteBytesPerSecond: 3e9 } };
  expect(best(faster, 2 * gib)).toBeGreaterThanOrEqual(best(hardware, 2 * gib) * 0.99);
});

describe('with a GPU', () => {
  const T4 = builtIn('flexgen-t4');
  const gpuShape = { ...requireKnownShape('opt-6.7b'), layers: 8 };
  const all = { gpu: 1, cpu: 0, disk: 0 };
  const offloaded = parsePolicy(
    {
      schedule: 'zigzag',
      batchSize: 16,
      batches: 2,
      weights: { gpu: 0.2, cpu: 0.8, disk: 0 },
      cache: all,
      activations: all,
      cpuAttention: true,
    },
    'test',
  );
  const learnedOf = async (truth: HardwareProfile, policy = offloaded): Promise<Readonly<Record<string, number>>> => {
    const timings = new TaskTimings(
      settingOf({ hardware: T4, shape: gpuShape, workload }, policy).setting,
      policy,
      undefined,
    );
    await simulatePlan({ hardware: truth, shape: gpuShape, workload }, policy, { timings });
    const work = Object.entries(timings.end().work);
    return Object.fromEntries(work.map(([kind, { seconds, profileSeconds }]) => [kind, seconds / profileSeconds]));
  };

  test('a link and a GPU that are slower than measured are told apart', async () => {
    const { gpu, links } = T4;
    if (!gpu) throw new Error('no GPU');
    const ratios = await learnedOf({
      ...T4,
      links: { ...links, hostToDeviceBytesPerSecond: (links.hostToDeviceBytesPerSecond ?? 0) / 1.5 },
    });
    expect(ratios['link.up']).toBeCloseTo(1.5, 6);
    for (const [kind, ratio] of Object.entries(ratios))
      if (kind !== 'link.up') expect([kind, ratio]).toEqual([kind, expect.closeTo(1, 6)]);
    expect(Object.keys(ratios).some((kind) => kind.startsWith('compute.decode'))).toBe(true);
    const slow = await learnedOf({ ...T4, corrections: everyDecode(1.3) });
    expect(
      Object.entries(slow).filter(([kind, ratio]) => kind.startsWith('compute.decode') && Math.abs(ratio - 1.3) < 0.05),
    ).not.toEqual([]);
    // What was learned is in later predictions.
    const by = (corrections: HardwareProfile['corrections']): number =>
      predict({ hardware: { ...T4, ...(corrections && { corrections }) }, shape: gpuShape, workload }, offloaded)
        .queueSeconds['host-to-device'] ?? 0;
    expect(by({ 'link.up': 1.5 }) / by(undefined)).toBeCloseTo(1.5, 6);
  });

  test('attention that happens in part on the processor teaches nothing of the GPU, nor how queues overlap', async () => {
    const half = parsePolicy({ ...offloaded, cache: { gpu: 0.5, cpu: 0.5, disk: 0 } }, 'test');
    const ratios = await learnedOf(
      {
        ...T4,
        cpu: {
          ...T4.cpu,
          attention: { ...T4.cpu.attention, decodeBytesPerSecond: T4.cpu.attention.decodeBytesPerSecond / 2 },
        },
      },
      half,
    );
    expect(Object.keys(ratios).length).toBeGreaterThan(0);
    for (const ratio of Object.values(ratios)) expect(ratio).toBeCloseTo(1, 6);
    expect(ratios).not.toHaveProperty('between');
    expect(ratios).not.toHaveProperty('overlap');
  });

  test('where pages come to it nothing is learned of the link, which weights cross beside, but of the GPU all', async () => {
    const cache = { gpu: 0, cpu: 1, disk: 0 };
    const fetching = parsePolicy({ ...offloaded, cache, cpuAttention: false }, 'test');
    const { links } = T4;
    const ratios = await learnedOf(
      { ...T4, links: { ...links, hostToDeviceBytesPerSecond: (links.hostToDeviceBytesPerSecond ?? 0) / 2 } },
      fetching,
    );
    expect(Object.keys(ratios).some((kind) => kind.startsWith('compute.decode'))).toBe(true);
    expect(Object.keys(ratios).filter((kind) => !kind.startsWith('compute.'))).toEqual([]);
    for (const ratio of Object.values(ratios)) expect(ratio).toBeCloseTo(1, 6);
  });

  test('nothing is learned of attention in whose middle pages come', () => {
    const rows = [{ row: 0, firstPosition: 40, tokens: 1, head: 'sample' as const }];
    const learnedFrom = (movesPages: boolean): number => {
      const timings = new TaskTimings(
        settingOf({ hardware: T4, shape: gpuShape, workload }, offloaded).setting,
        offloaded,
        undefined,
      );
      const batch = { pass: 1, slot: 0, rows };
      timings.completed({
        id: 1,
        task: { run: 1, name: 'compute', part: 'attend', queue: 'gpu-compute', batch, layer: 1, bytes: 0 },
        timing: { start: 0, end: 1 },
        error: undefined,
        movesPages,
      });
      return Object.values(timings.end().work).reduce((sum, { seconds }) => sum + seconds, 0);
    };
    expect([learnedFrom(false), learnedFrom(true)]).toEqual([1, 0]);
  });

  test('of a native task on disk and link the slower one is learned of, if it is clear which', () => {
    const event = (id: number, queue: QueueName, bytes: number, seconds: number, hops?: readonly Hop[]): TaskEvent => ({
      id,
      task: { run: 1, name: 'load_weight', queue, batch: { pass: 0, slot: 0, rows: [] }, layer: 1, bytes, hops },
      timing: { start: 0, end: seconds },
      error: undefined,
    });
    const { diskReadBytesPerSecond: disk = 0, hostToDeviceBytesPerSecond: link = 0 } = T4.links;
    const learnedFrom = (events: readonly TaskEvent[]): string[] => {
      const timings = new TaskTimings(
        settingOf({ hardware: T4, shape: gpuShape, workload }, offloaded).setting,
        offloaded,
        undefined,
      );
      for (const each of events) timings.completed(each);
      return Object.entries(timings.end().work).map(
        ([kind, { seconds, profileSeconds }]) => `${kind} ${(seconds / profileSeconds).toFixed(2)}`,
      );
    };
    const together = (diskBytes: number, linkBytes: number): TaskEvent =>
      event(1, 'host-to-device', linkBytes, 1.2, [{ queue: 'disk-read', from: 'disk', to: 'cpu', bytes: diskBytes }]);
    expect(learnedFrom([together(disk, link / 10)])).toEqual(['disk.read 1.20']);
    expect(learnedFrom([together(disk / 10, link)])).toEqual(['link.up 1.20']);
    expect(learnedFrom([together(disk, link)])).toEqual([]);
    // Two tasks.
    expect(learnedFrom([event(1, 'disk-read', disk, 1.2), event(2, 'host-to-device', link, 1.1)])).toEqual([
      'disk.read 1.20',
      'link.up 1.10',
    ]);
    expect(learnedFrom([event(1, 'disk-read', disk, 1.2)])).toEqual(['disk.read 1.20']);
  });
});

describe('how much of the machine a run had', () => {
  /**
   * Two looks at two processors, ten seconds apart: seconds that two threads waited and ran, ticks that others were
   * busy and that were stolen.
   */
  const shareOf = ({ waited = 0, used = 20, others = 0, stolen = 0 }): number => {
    let look = 0;
    const clocks: MachineClocks = {
      list: () => ['11', '12'],
      read: (path) =>
        path === '/proc/stat'
          ? `cpu  ${5000 + look * (used * 100 + others)} 0 0 ${9000 + look * (2000 - used * 100 - others - stolen)} 0 0 0 ${70 + look * stolen} 7 7\ncpu0 1`
          : `1 ${3e9 + look * waited * 0.5e9} 3\n`,
      used: () => 4 + look * used,
      // Looked at last.
      now: () => 50 + 10 * look++,
    };
    return new CpuContention(2, clocks).undisturbed();
  };

  test('is all of it where nobody else was there, however long threads waited for each other', () => {
    expect(shareOf({})).toBe(1);
    expect(shareOf({ waited: 6, used: 19 })).toBe(1);
    // Others on processors that this process did not need.
    expect(shareOf({ used: 8, others: 1000 })).toBe(1);
  });

  test('is half where others took 15% of it, or it was stolen', () => {
    expect(shareOf({ waited: 3, used: 17, others: 300 })).toBeCloseTo(0.5, 6);
    expect(shareOf({ used: 17, stolen: 300 })).toBeCloseTo(0.5, 6);
    expect(shareOf({ waited: 10, used: 10, others: 1000 })).toBeLessThan(0.1);
  });

  test('is taken for all of it where the system does not tell', () => {
    const silent = (): never => {
      throw new Error('no such file');
    };
    let seconds = 0;
    const clocks = { read: silent, used: () => 1, now: () => seconds++ };
    expect(new CpuContention(2, { ...clocks, list: silent }).undisturbed()).toBe(1);
    expect(new CpuContention(2, { ...clocks, list: () => ['1'] }).undisturbed()).toBe(1);
  });
});
