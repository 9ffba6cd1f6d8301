import { describe, expect, test } from '@jest/globals';
import type { NativeCompletions, NativeRuntime } from '../../../src/bindings/Addon.js';
import { NativeDevice } from '../../../src/engine/execution/NativeDevice.js';
import type { Completion } from '../../../src/engine/grid/Device.js';
import { hopsOf, type Task } from '../../../src/engine/grid/Task.js';
import { TaskError } from '../../../src/errors/engineErrors.js';

/** A runtime that notes what is asked of it. */
function noted(): {
  runtime: NativeRuntime;
  calls: unknown[][];
  complete: (completions: Partial<NativeCompletions>) => void;
} {
  const calls: unknown[][] = [];
  let callback: (completions: NativeCompletions) => void = () => undefined;
  let next = 1;
  const submit =
    (name: string) =>
    (...args: unknown[]): number => {
      calls.push([name, ...args]);
      return next++;
    };
  const runtime = {
    bytes: { streamed: [700, 700], gpu: {} },
    onCompleted: (each: typeof callback) => (callback = each),
    createActivations: () => 0,
    createHiddenStore: () => 0,
    createBatch: () => 5,
    createRow: () => 3,
    submitCompute: submit('compute'),
    submitLoadWeight: submit('load_weight'),
    submitLoadActivation: submit('load_activation'),
    submitStoreActivation: submit('store_activation'),
  } as unknown as NativeRuntime;
  return {
    runtime,
    calls,
    complete: (completions) => {
      callback({ events: new Float64Array(), errors: [], heads: [], hidden: [], read: [], ...completions });
    },
  };
}

const batch = { pass: 0, slot: 0, rows: [{ row: 0, firstPosition: 0, tokens: 2, head: 'none' as const }] };
const task = (name: Task['name'], more: Partial<Task>): Task => ({
  run: 1,
  name,
  queue: 'host-to-device',
  batch,
  layer: 1,
  bytes: 700,
  ...more,
});
const LINK = { queue: 'host-to-device', from: 'cpu', to: 'gpu' } as const;
const READ = { queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 300 } as const;
const WRITE = { queue: 'disk-write', from: 'cpu', to: 'disk', bytes: 300 } as const;

function device(runtime: NativeRuntime): NativeDevice {
  const native = new NativeDevice(runtime, {
    weightBuffers: 2,
    cacheBuffers: 0,
    pageTokens: 4,
    windows: [0, 0],
    computeTier: 'gpu',
    activations: { stayingSlots: 0, residentTokens: 1, buffers: 2 },
  });
  native.openRun(1, { slots: 1, tokensPerSquare: 8 });
  native.openRow(
    1,
    0,
    {
      tokens: [1, 2],
      capacityTokens: 4,
      temperature: 0,
      topP: 1,
      topK: 0,
      minP: 0,
      repetitionPenalty: 1,
      seed: 0,
      logprobs: -1,
    },
    { entries: [0], tail: -1 },
  );
  return native;
}

describe('NativeDevice with a GPU', () => {
  test('computes there, and has its queues', () => {
    const native = device(noted().runtime);
    expect([native.computeTier, native.computeQueue]).toEqual(['gpu', 'gpu-compute']);
    expect(native.queues).toEqual([
      'gpu-compute',
      'host-to-device',
      'device-to-host',
      'disk-read',
      'disk-write',
      'peer-receive',
      'peer-send',
    ]);
  });

  test.each([
    ['cpu', 0, true],
    ['cpu', 2, false],
    ['gpu', 0, false],
  ] as const)(
    'on a %s with %d buffers of the cache, that it joins the parts of a layer is %p',
    (tier, buffers, joins) => {
      const setup = { weightBuffers: 2, cacheBuffers: buffers, pageTokens: 4, windows: [0], computeTier: tier };
      expect(new NativeDevice(noted().runtime, setup).joinsParts).toBe(joins);
    },
  );

  test('its prompts are of one kind, or of two where long ones are multiplied in another way', () => {
    const kinds = (longPromptTokens: number): string[] => {
      const native = device({ ...noted().runtime, longPromptTokens });
      return [1, 127, 128, 500].map((tokens) => native.promptKind(tokens));
    };
    expect(new Set(kinds(0)).size).toBe(1);
    expect(kinds(128)).toEqual(['', '', 'long', 'long']);
  });

  test('a load from disk over the link is one native task with one event', () => {
    const { runtime, calls, complete } = noted();
    const native = device(runtime);
    const load = native.submit(task('load_weight', { ...LINK, hops: [READ] }), []);
    expect(calls).toEqual([['load_weight', 1, 0, [], false]]);
    const project = native.submit(task('compute', { part: 'embed', queue: 'gpu-compute', bytes: 0 }), [load]);
    expect(calls[1]?.[5]).toEqual([load.id]);
    const seen: Completion[] = [];
    native.completed$.subscribe((burst) => seen.push(...burst));
    complete({ events: Float64Array.of(load.id, 1, 2, 0) });
    expect(seen.map(({ event }) => event)).toEqual([load]);
    expect([load.timing, load.error]).toEqual([{ start: 1, end: 2 }, undefined]);
    expect(hopsOf(load.task).map(({ bytes, queue }) => ({ bytes, queue }))).toEqual([
      { bytes: 300, queue: 'disk-read' },
      { bytes: 700, queue: 'host-to-device' },
    ]);
    expect(project.timing).toBeUndefined();
  });

  test('when it fails, its event does', () => {
    const { runtime, complete } = noted();
    const native = device(runtime);
    const event = native.submit(task('load_weight', { ...LINK, hops: [READ] }), []);
    complete({ events: Float64Array.of(1, 1, 2, 1), errors: [{ event: 1, code: 'file', message: 'it broke' }] });
    expect(event.error?.message).toContain('it broke');
  });

  test('hidden states go and come in one native task each way', () => {
    const { runtime, calls } = noted();
    const native = device(runtime);
    const embed = native.submit(task('compute', { part: 'embed', queue: 'gpu-compute', bytes: 0, layer: 0 }), []);
    const stored = native.submit(
      task('store_activation', { queue: 'device-to-host', from: 'gpu', to: 'cpu', layer: 0, hops: [WRITE] }),
      [embed],
    );
    native.submit(task('load_activation', { ...LINK, hops: [READ] }), [stored]);
    expect(calls.map(([name]) => name)).toEqual(['compute', 'store_activation', 'load_activation']);
  });

  test('a hop of the disk without its way over the link is refused', () => {
    const native = device(noted().runtime);
    expect(() => native.submit(task('load_weight', READ), [])).toThrow(TaskError);
    expect(() => native.submit(task('load_weight', READ), [])).toThrow('crosses the link in the same task');
    expect(() => native.submit(task('load_activation', READ), [])).toThrow(TaskError);
  });
});
