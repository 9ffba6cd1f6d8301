import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PendingEvent } from '../../../src/engine/execution/PendingEvent.js';
import { BufferRing } from '../../../src/engine/execution/BufferRing.js';

let nextId = 1;
const event = (): PendingEvent =>
  new PendingEvent(nextId++, {
    run: 1,
    name: 'compute',
    queue: 'cpu-compute',
    batch: { pass: 0, slot: 0, rows: [] },
    layer: 0,
    bytes: 0,
  });
const completed = (): PendingEvent => Object.assign(event(), { timing: { start: 0, end: 1 } });

describe('BufferRing', () => {
  test('takes buffers in turn, and finds the layer that each holds', () => {
    const ring = new BufferRing(2);
    expect([ring.take(0).buffer, ring.take(1).buffer]).toEqual([0, 1]);
    expect([ring.find(0)?.buffer, ring.find(1)?.buffer, ring.find(2)]).toEqual([0, 1, undefined]);
    expect(ring.take(2).buffer).toBe(0);
    expect(ring.find(0)).toBeUndefined();
  });

  test('a load waits for whoever still reads what it overwrites, and for the load before it', () => {
    const ring = new BufferRing(1);
    const { buffer } = ring.take(0);
    const [load, reader, done] = [event(), event(), completed()];
    ring.filledBy(buffer, load);
    ring.usedBy(buffer, done);
    ring.usedBy(buffer, reader);
    expect(ring.find(0)).toEqual({ buffer, load });
    expect(ring.take(1).after).toEqual([reader, load]);
  });

  test('never lets go of a buffer that is read, whatever the order of calls', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.record({ layer: fc.nat(6), reads: fc.nat(3), finish: fc.nat(3) }), { maxLength: 40 }),
        (count, steps) => {
          const ring = new BufferRing(count);
          const readers = new Map<number, PendingEvent[]>();
          for (const { layer, reads, finish } of steps) {
            const found = ring.find(layer);
            const buffer =
              found?.buffer ??
              ((): number => {
                const taken = ring.take(layer);
                const open = (readers.get(taken.buffer) ?? []).filter(({ timing }) => timing === undefined);
                expect(taken.after).toEqual(expect.arrayContaining(open));
                readers.set(taken.buffer, []);
                return taken.buffer;
              })();
            for (let i = 0; i < reads; i++) {
              const reader = event();
              ring.usedBy(buffer, reader);
              readers.set(buffer, [...(readers.get(buffer) ?? []), reader]);
            }
            for (const reader of (readers.get(buffer) ?? []).slice(0, finish)) reader.timing = { start: 0, end: 1 };
          }
        },
      ),
    );
  });
});
