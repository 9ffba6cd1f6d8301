import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { KeptPlaces } from '../../../src/engine/execution/KeptPlaces.js';

const calls = fc.array(fc.record({ priority: fc.integer({ min: -3, max: 3 }), running: fc.nat(40) }), { minLength: 1 });

describe('places that lower priorities keep', () => {
  test('a sixteenth each, one at least, and never more than half of them together', () => {
    fc.assert(
      fc.property(calls, fc.integer({ min: 1, max: 200 }), (given, places) => {
        const highest = Math.max(...given.map(({ priority }) => priority));
        const idle = given.map(({ priority }) => ({ priority, running: 0 }));
        const { owed } = new KeptPlaces(idle, places);
        expect(owed.has(highest)).toBe(false);
        const each = Math.max(1, Math.floor(places / 16));
        expect(owed.size * each).toBeLessThanOrEqual(places / 2);
        // The highest of the lower ones first.
        const lower = [...new Set(given.map(({ priority }) => priority))].sort((a, b) => b - a).slice(1);
        expect([...owed]).toEqual(lower.slice(0, owed.size));
        if (lower.length > 0 && places >= 2) expect(owed.size).toBeGreaterThan(0);
      }),
    );
  });

  test('what a priority has counts over all of its calls', () => {
    fc.assert(
      fc.property(calls, fc.integer({ min: 2, max: 200 }), (given, places) => {
        const kept = new KeptPlaces(given, places);
        const each = Math.max(1, Math.floor(places / 16));
        const { owed: all } = new KeptPlaces(
          given.map(({ priority }) => ({ priority, running: 0 })),
          places,
        );
        for (const priority of all) {
          const running = given.reduce((sum, call) => sum + (call.priority === priority ? call.running : 0), 0);
          expect(kept.owed.has(priority)).toBe(running < each);
          expect(kept.spent.has(priority)).toBe(running <= each);
        }
        expect([...kept.owed].every((priority) => all.has(priority))).toBe(true);
      }),
    );
  });

  test('of one place none is kept', () => {
    const calls = [
      { priority: 0, running: 0 },
      { priority: -1, running: 0 },
    ];
    expect(new KeptPlaces(calls, 1).owed.size).toBe(0);
  });
});
