import { describe, expect, test } from '@jest/globals';
import { RunRecorder } from '../../../src/engine/execution/RunRecorder.js';
import type { Task, TaskEvent } from '../../../src/engine/grid/Task.js';
import { spendingMeter } from '../../../src/plan/spending.js';
import { rowsOfTrace } from '../../../src/engine/schedules/recordsOfTrace.js';
import type { TraceEvent } from '../../../src/RunStats.js';

const rows = [
  { row: 0, firstPosition: 0, tokens: 3, head: 'sample' as const },
  { row: 1, firstPosition: 7, tokens: 1, head: 'sample' as const },
];
function done(task: Partial<Task>, start: number, end: number, error?: Error): TaskEvent {
  return {
    id: 1,
    error,
    timing: { start, end },
    task: {
      run: 1,
      name: 'compute',
      part: 'project',
      queue: 'cpu-compute',
      batch: { pass: 2, slot: 0, rows },
      layer: 3,
      bytes: 0,
      ...task,
    },
  };
}

describe('RunRecorder', () => {
  test('adds up queues, bytes by link, and shares mixed squares between prefill and decode by tokens', () => {
    const recorder = new RunRecorder({
      model: 'm',
      policy: { schedule: 'diagonal' },
      loadSeconds: 2,
      beginToken: 1,
      memory: () => ({ cpu: { capacityBytes: 9, usedBytes: 4, peakBytes: 5 } }),
    });
    recorder.completed(done({}, 1, 5));
    recorder.completed(done({ name: 'load_weight', queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 70 }, 1, 2));
    recorder.completed(done({ name: 'load_weight', queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 30 }, 2, 4));
    recorder.completed(done({ name: 'store_cache', queue: 'disk-write', from: 'cpu', to: 'disk', bytes: 5 }, 2, 4));
    recorder.completed(done({}, 5, 9, new Error('failed: does not count')));
    recorder.admitted({ row: 0, promptTokens: 3, newTokens: 1 }, 3);
    recorder.token();
    recorder.row(false);
    recorder.row(false, 5, true);
    recorder.row(true);
    recorder.equal({ finishReason: 'length' });
    recorder.equal({ finishReason: 'stop' });
    recorder.reused({ finishReason: 'length' });
    for (const tokens of [[1], [], [2, 2], [1, 2, 1], [1, 1]]) recorder.prompt(tokens);
    recorder.prompt([1, 1, 5], 7);
    const stats = recorder.stats();
    expect(stats.queues).toEqual({
      'cpu-compute': { busySeconds: 4, tasks: 1, bytes: 0 },
      'disk-read': { busySeconds: 3, tasks: 2, bytes: 100 },
      'disk-write': { busySeconds: 2, tasks: 1, bytes: 5 },
    });
    expect(stats.bytes).toEqual({ weights: { 'disk→cpu': 100 }, cache: { 'cpu→disk': 5 }, activations: {} });
    expect(stats.seconds).toMatchObject({ load: 2, prefill: 3, decode: 1 });
    expect(stats).toMatchObject({
      model: 'm',
      policy: { schedule: 'diagonal' },
      rows: { done: 5, failed: 1, cut: 3, truncated: 1, begunTwice: 2 },
      tokens: { prompt: 3, generated: 1 },
      memory: { cpu: { capacityBytes: 9, peakBytes: 5 } },
    });
  });

  test('says what the run took of money and energy, as far as it is known', () => {
    const setup = { model: 'm', policy: {}, loadSeconds: 0, memory: () => ({}) };
    expect(new RunRecorder(setup).stats()).not.toHaveProperty('spending');
    let drawn = 100;
    const meter = spendingMeter({ dollarsPerHour: 3600, watts: 1 }, () => drawn);
    const recorder = new RunRecorder({ ...setup, spending: meter });
    recorder.token();
    recorder.token();
    drawn = 107;
    const { spending, tokensPerSecond } = recorder.stats();
    expect(spending).toMatchObject({ joules: 7, joulesPerToken: 3.5, joulesFrom: 'measured' });
    // A dollar a second.
    expect(spending?.tokensPerDollar).toBeCloseTo(tokensPerSecond.generated, 6);
    const told = new RunRecorder({ ...setup, spending: spendingMeter({ watts: 5 }, () => undefined) }).stats();
    expect(told.spending?.joulesFrom).toBe('hardware');
  });

  test('traces complete events in microseconds with the square in their arguments, and memory when it changes', () => {
    const events: TraceEvent[] = [];
    let usedBytes = 1;
    const recorder = new RunRecorder({
      model: 'm',
      policy: {},
      loadSeconds: 0,
      memory: () => ({ cpu: { capacityBytes: 9, usedBytes, peakBytes: 9 } }),
      onTrace: (event) => events.push(event),
    });
    recorder.completed(done({}, 1, 1.5));
    recorder.completed(done({}, 2, 3));
    usedBytes = 7;
    recorder.completed(done({}, 3, 4));
    const args = {
      pass: 2,
      layer: 3,
      slot: 0,
      part: 'project',
      rows: [
        [0, 0, 3],
        [1, 7, 1],
      ],
      bytes: 0,
      from: undefined,
      to: undefined,
    };
    expect(events.filter(({ ph }) => ph === 'X')[0]).toEqual({
      name: 'compute L3 project',
      ph: 'X',
      ts: 1e6,
      dur: 5e5,
      pid: 1,
      tid: 1,
      args,
    });
    expect(events.filter(({ ph }) => ph === 'C').map((event) => event.args)).toEqual([{ used: 1 }, { used: 7 }]);
    expect(events.filter(({ ph }) => ph === 'M').map((event) => event.args.name)).toEqual(['spillway', 'cpu-compute']);
  });

  test("what is computed for rows to come counts against those that share it, and is nobody's debt", () => {
    const recorder = new RunRecorder({ model: 'm', policy: {}, loadSeconds: 0, memory: () => ({}) });
    const saved: number[] = [];
    const admitted = (...[row, tokens]: Parameters<RunRecorder['admitted']>): void => {
      recorder.admitted(row, tokens);
      saved.push(recorder.progress().sharing.promptTokensSaved);
    };
    admitted({ row: 0, promptTokens: 101, newTokens: 0, prefix: true }, 100);
    for (const row of [1, 2, 3]) admitted({ row, promptTokens: 110, newTokens: 2, shared: [{ row: 0, end: 100 }] }, 10);
    // Where the run ends before anybody shares it, nothing was saved; and what was saved before still is.
    admitted({ row: 4, promptTokens: 501, newTokens: 0, prefix: true }, 500);
    expect(saved).toEqual([0, 0, 100, 200, 200]);
    expect(recorder.stats().tokens.prompt).toBe(330);
  });

  test('traces a track of rows: each from when it came in to its end', () => {
    const events: TraceEvent[] = [];
    const recorder = new RunRecorder({
      model: 'm',
      policy: {},
      loadSeconds: 0,
      memory: () => ({}),
      onTrace: (event) => events.push(event),
    });
    recorder.admitted({ row: 0, promptTokens: 3, newTokens: 2 }, 3);
    recorder.completed(done({}, 1, 1.5));
    recorder.admitted({ row: 1, promptTokens: 4, newTokens: 1 }, 4);
    recorder.completed(done({}, 2, 3));
    recorder.left(0, 4);
    recorder.left(1, 4);
    const track = events.filter(({ cat }) => cat === 'row');
    expect(track.map(({ ph, id, ts, name }) => [ph, id, ts, name])).toEqual([
      ['b', 0, 0, 'row'],
      ['b', 1, 1.5e6, 'row'],
      ['e', 0, 3e6, 'row'],
      ['e', 1, 3e6, 'row'],
    ]);
    expect(track.map(({ args }) => args)).toEqual([
      { row: 0, promptTokens: 3, newTokens: 2 },
      { row: 1, promptTokens: 4, newTokens: 1 },
      { row: 0, positions: 4 },
      { row: 1, positions: 4 },
    ]);
  });

  test('traces who was admitted, so that a trace says by what rows it is to be judged', () => {
    const events: TraceEvent[] = [];
    const recorder = new RunRecorder({
      model: 'm',
      policy: {},
      loadSeconds: 0,
      memory: () => ({}),
      onTrace: (event) => events.push(event),
    });
    const rows = [
      { row: 0, promptTokens: 33, newTokens: 0, prefix: true, shared: [], known: [] },
      {
        row: 1,
        promptTokens: 40,
        newTokens: 7,
        prefix: false,
        shared: [{ row: 0, end: 32 }],
        known: [
          { behind: 39, end: 43 },
          { behind: 42, end: 46 },
        ],
      },
      { row: 2, promptTokens: 4, newTokens: 0, prefix: false, shared: [], known: [] },
    ];
    for (const row of rows) recorder.admitted(row, 1);
    for (const { row, known } of rows) for (const stretch of known) recorder.known(row, stretch);
    expect(rowsOfTrace(JSON.parse(JSON.stringify(events)) as TraceEvent[])).toEqual(rows);
  });

  test('keeps what a callback throws first, goes on counting, and calls the others', () => {
    const calls: string[] = [];
    const fails = (name: string) => (): never => {
      calls.push(name);
      throw new Error(name);
    };
    const recorder = new RunRecorder({
      model: 'm',
      policy: {},
      loadSeconds: 0,
      memory: () => ({}),
      onTrace: fails('trace'),
      onProgress: fails('progress'),
      onStats: fails('stats'),
    });
    recorder.completed(done({}, 1, 5));
    expect(recorder.failure).toEqual({ error: new Error('trace') });
    recorder.rows(3);
    recorder.end();
    expect(recorder.failure).toEqual({ error: new Error('trace') });
    expect(new Set(calls)).toEqual(new Set(['trace', 'progress', 'stats']));
    expect(recorder.stats().queues['cpu-compute']?.tasks).toBe(1);
    expect(recorder.progress().rowsActive).toBe(3);
  });

  test('counts nested work of the JavaScript thread once', () => {
    const recorder = new RunRecorder({ model: 'm', policy: {}, loadSeconds: 0, memory: () => ({}) });
    const spin = (): void => {
      const end = performance.now() + 5;
      while (performance.now() < end);
    };
    expect(
      recorder.timed(() => {
        recorder.timed(spin);
        return 7;
      }),
    ).toBe(7);
    expect(() =>
      recorder.timed(() => {
        throw new Error('through');
      }),
    ).toThrow('through');
    const { seconds, fractionOfWall } = recorder.stats().orchestration;
    expect(seconds).toBeGreaterThanOrEqual(0.005);
    expect(fractionOfWall).toBeLessThanOrEqual(1);
  });
});
