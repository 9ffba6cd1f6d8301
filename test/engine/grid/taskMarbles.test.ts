import { describe, expect, test } from '@jest/globals';
import { SimulatedDevice } from '../../../src/engine/execution/SimulatedDevice.js';
import { taskMarbles } from '../../../src/engine/grid/taskMarbles.js';
import type { QueueName, Task, TaskEvent } from '../../../src/engine/grid/Task.js';

const task = (queue: QueueName, layer: number): Task => ({
  run: 1,
  name: queue === 'disk-read' ? 'load_weight' : 'compute',
  queue,
  batch: { pass: 0, slot: 0, rows: [] },
  layer,
  bytes: 0,
});

/**
 * Each layer's weights are read, then it computes; reading runs ahead, or waits until the layer before has computed.
 */
async function layers(count: number, seconds: (task: Task) => number, ahead: boolean): Promise<TaskEvent[]> {
  const device = new SimulatedDevice({ duration: seconds });
  const events: TaskEvent[] = [];
  let before: TaskEvent | undefined;
  for (let layer = 0; layer < count; layer++) {
    const read = device.submit(task('disk-read', layer), !ahead && before ? [before] : []);
    before = device.submit(task('cpu-compute', layer), [read]);
    events.push(read, before);
  }
  await device.close();
  return events;
}

describe('taskMarbles', () => {
  test('shows what overlaps', async () => {
    expect(taskMarbles(await layers(3, () => 2, true))).toBe(
      ['cpu-compute  --0=1=2=|', 'disk-read    0=1=2=--|'].join('\n'),
    );
    expect(taskMarbles(await layers(3, () => 2, false))).toBe(
      ['cpu-compute  --0=--1=--2=|', 'disk-read    0=--1=--2=--|'].join('\n'),
    );
  });

  test('takes a frame, marks of its own, and tasks shorter than a frame', async () => {
    const events = await layers(3, ({ queue }) => (queue === 'disk-read' ? 0.1 : 0.3), true);
    expect(taskMarbles(events, { frame: 0.1, mark: ({ name }) => (name === 'compute' ? 'c' : 'r') })).toBe(
      ['cpu-compute  -c==c==c==|', 'disk-read    rrr-------|'].join('\n'),
    );
    expect(taskMarbles(events, { frame: 0.5 })).toBe(['cpu-compute  *2|', 'disk-read    *-|'].join('\n'));
  });

  test('takes a run of any number of tasks', () => {
    const events = Array.from({ length: 300_000 }, (_, id) => ({
      id: id + 1,
      task: task('cpu-compute', id),
      timing: { start: id, end: id + 1 },
      error: undefined,
    }));
    expect(taskMarbles(events, { frame: 100_000 })).toBe('cpu-compute  ***|');
  });

  test('leaves out what has not completed; nothing at all is an empty diagram', () => {
    const device = new SimulatedDevice();
    expect(taskMarbles([device.submit(task('cpu-compute', 0), [])])).toBe('');
    expect(taskMarbles([])).toBe('');
  });

  test.each([0, -1, NaN, 1e-9])('refuses a frame of %p', async (frame) => {
    const events = await layers(2, () => 1, true);
    expect(() => taskMarbles(events, { frame })).toThrow(/^frame: found .*, expected/);
  });
});
