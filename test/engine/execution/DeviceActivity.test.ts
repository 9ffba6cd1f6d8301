import { expect, test } from '@jest/globals';
import { Subject } from 'rxjs';
import { DeviceActivity } from '../../../src/engine/execution/DeviceActivity.js';
import type { Completion } from '../../../src/engine/grid/Device.js';
import type { Batch } from '../../../src/engine/grid/Square.js';
import type { Task } from '../../../src/engine/grid/Task.js';

const batch = (pass: number, rows: Batch['rows'] = []): Batch => ({ pass, slot: 0, rows });
const now = (): number => performance.now() / 1000;

function activity(): {
  readonly seen: DeviceActivity;
  readonly complete: (task: Partial<Task>, start: number, end: number, error?: Error) => void;
} {
  const completed$ = new Subject<readonly Completion[]>();
  const seen = new DeviceActivity(completed$, () => ({
    cpu: { capacityBytes: 100, usedBytes: 40, peakBytes: 60 },
  }));
  let id = 0;
  return {
    seen,
    complete: (task, start, end, error) => {
      const whole: Task = {
        run: 1,
        name: 'compute',
        queue: 'cpu-compute',
        layer: 0,
        bytes: 0,
        batch: batch(0),
        ...task,
      };
      completed$.next([{ event: { id: ++id, task: whole, timing: { start, end }, error } }]);
    },
  };
}

test('counts what queues did, and tokens of a batch once, whatever its layers', () => {
  const { seen, complete } = activity();
  const at = now() - 1;
  const one = batch(1, [
    { row: 0, firstPosition: 0, tokens: 5, head: 'sample' },
    { row: 1, firstPosition: 9, tokens: 1, head: 'sample' },
    { row: 2, firstPosition: 0, tokens: 4, head: 'none' },
  ]);
  for (let layer = 0; layer < 3; layer++) complete({ layer, batch: one }, at + layer * 0.1, at + layer * 0.1 + 0.05);
  complete({ name: 'load_weight', queue: 'disk-read', bytes: 70 }, at, at + 0.2);
  complete({ name: 'load_weight', queue: 'disk-read', bytes: 70 }, at, at + 0.2, new Error('no'));
  const { tokens, queues, memory, stretches } = seen.read();
  expect(tokens).toEqual({ prompt: 9, generated: 2 });
  expect(queues['cpu-compute']).toMatchObject({ tasks: 3, bytes: 0 });
  expect(queues['cpu-compute']?.busySeconds).toBeCloseTo(0.15);
  expect(queues['disk-read']).toMatchObject({ tasks: 1, bytes: 70 });
  expect(memory).toEqual({ cpu: { capacityBytes: 100, usedBytes: 40, peakBytes: 60 } });
  expect(stretches.map(({ queue, name }) => `${queue} ${name}`)).toEqual([
    ...Array<string>(3).fill('cpu-compute compute'),
    'disk-read load_weight',
  ]);
});

test('keeps ten seconds, and of many small tasks a stretch for some milliseconds', () => {
  const { seen, complete } = activity();
  const at = now() - 20;
  const tasks = 200_000;
  for (let task = 0; task < tasks; task++) complete({}, at + task * 1e-4, at + task * 1e-4 + 9e-5);
  const { stretches, queues } = seen.read();
  expect(queues['cpu-compute']?.tasks).toBe(tasks);
  expect(stretches.length).toBeLessThan(2100);
  expect(stretches.length).toBeGreaterThan(100);
  for (const { end, tasks: some } of stretches) {
    expect(end).toBeGreaterThan(at + 9.9);
    expect(some).toBeGreaterThan(1);
  }
  // Whoever never asks, too.
  for (let task = 0; task < 100_000; task++)
    complete({ name: task % 2 ? 'load_weight' : 'load_cache' }, at + task, at + task + 1);
  expect((seen as unknown as { stretches: unknown[] }).stretches.length).toBeLessThanOrEqual(16_384);
});
