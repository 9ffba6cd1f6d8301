import { describe, expect, test } from '@jest/globals';
import { StepTimes } from '../../src/cli/StepTimes.js';
import type { TraceEvent } from '../../src/index.js';

/** An event from `start` to `end`, in seconds. */
function event(name: string, start: number, end: number, args: Record<string, unknown>): TraceEvent {
  return { name, ph: 'X', ts: start * 1e6, dur: (end - start) * 1e6, pid: 1, tid: 0, args };
}

const compute = (pass: number, start: number, end: number, rows: number[][], part = 'head', slot = 0): TraceEvent =>
  event(`compute L1 ${part}`, start, end, { pass, slot, layer: 1, part, rows });
const read = (start: number, end: number, from = 'disk'): TraceEvent =>
  event('load_weight L1', start, end, { from, to: 'cpu' });

function figuresOf(events: readonly TraceEvent[]): ReturnType<StepTimes['figures']> {
  const times = new StepTimes(4);
  for (const each of events) times.add(each);
  return times.figures();
}

describe('StepTimes', () => {
  test('prompts in chunks, then steps; other parts of a layer only move the start', () => {
    const figures = figuresOf([
      compute(0, 1, 2, [[1, 0, 3]], 'project'),
      compute(0, 2, 3, [[1, 0, 3]]),
      // The last token of a prompt is no decoded one, though it comes alone.
      compute(1, 3, 4, [[1, 3, 1]]),
      compute(2, 4, 6, [[1, 4, 1]]),
      compute(3, 6, 8, [[1, 5, 1]]),
    ]);
    expect(figures).toEqual({
      prefillSeconds: 3,
      prefilledTokens: 4,
      decodeSeconds: 4,
      decodedTokens: 2,
      steps: 2,
      diskBusyShare: 0,
    });
  });

  test('slots of a pass are one step', () => {
    const figures = figuresOf([
      compute(0, 0, 1, [[1, 0, 4]]),
      compute(0, 1, 2, [[2, 0, 4]], 'head', 1),
      compute(1, 2, 3, [[1, 4, 1]]),
      compute(1, 3, 4, [[2, 4, 1]], 'head', 1),
    ]);
    expect(figures).toMatchObject({
      prefillSeconds: 2,
      prefilledTokens: 8,
      decodeSeconds: 2,
      decodedTokens: 2,
      steps: 1,
    });
  });

  test('reads count once where they overlap, from the end of the prompts, and only from disk', () => {
    const figures = figuresOf([
      compute(0, 0, 2, [[1, 0, 4]]),
      compute(1, 2, 12, [[1, 4, 1]]),
      read(7, 9),
      read(0, 3),
      read(4, 6),
      read(5, 6.5),
      read(4.5, 5),
      read(11, 14),
      read(9, 11, 'cpu'),
    ]);
    expect(figures.diskBusyShare).toBeCloseTo((1 + 2.5 + 2 + 1) / 10, 9);
  });

  test('a run that was cut off in its prompts, and one that never began', () => {
    expect(figuresOf([compute(0, 1, 2, [[1, 0, 2]]), compute(1, 2, 3, [[1, 2, 2]], 'project')])).toEqual({
      prefillSeconds: 1,
      prefilledTokens: 2,
      decodeSeconds: 0,
      decodedTokens: 0,
      steps: 0,
      diskBusyShare: 0,
    });
    expect(figuresOf([])).toEqual({
      prefillSeconds: 0,
      prefilledTokens: 0,
      decodeSeconds: 0,
      decodedTokens: 0,
      steps: 0,
      diskBusyShare: 0,
    });
  });
});
