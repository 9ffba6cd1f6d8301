import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { correctionsOf, learn, type Learned } from '../../../src/engine/calibration/learn.js';
import { WORK_KIND } from '../../../src/plan/corrections.js';

const KIND = 'compute.decode.q4.64';

/** What is applied after runs that took these factors of what the profile says. */
function after(ratios: readonly number[], { seconds = 10, undisturbed = 1, learned = {} } = {}): number {
  for (const ratio of ratios)
    learned = learn(learned, { [KIND]: { seconds: seconds * ratio, profileSeconds: seconds } }, undisturbed);
  return correctionsOf(learned)?.[KIND] ?? 1;
}

describe('what runs teach', () => {
  test.each([0.77, 0.8, 1, 1.2, 1.3])(
    'three runs that take %f of the profile are followed to within five percent',
    (ratio) => {
      expect(Math.abs(after([ratio, ratio, ratio]) / ratio - 1)).toBeLessThan(0.05);
      expect(Math.abs(after(new Array<number>(8).fill(ratio)) / ratio - 1)).toBeLessThan(0.02);
    },
  );

  test.each([0.4, 0.6, 1.6, 2.5])('so are %f, more cautiously: nobody believes the first run', (ratio) => {
    expect(Math.abs(Math.log(after([ratio, ratio, ratio]) / ratio))).toBeLessThan(0.3 * Math.abs(Math.log(ratio)));
    expect(Math.abs(Math.log(after(new Array<number>(8).fill(ratio)) / ratio))).toBeLessThan(
      0.1 * Math.abs(Math.log(ratio)),
    );
  });

  test('one run that was three times as slow moves little, wherever it comes', () => {
    expect(after([1, 1, 1, 3])).toBeCloseTo(1, 2);
    expect(after([1.3, 1.3, 1.3, 3])).toBeCloseTo(after([1.3, 1.3, 1.3]), 1);
    expect(after([1.3, 1.3, 1.3, 3, 1.3])).toBeCloseTo(1.3, 1);
    expect(after([3])).toBeLessThan(1.2);
    expect(after([3, 1, 1])).toBeLessThan(1.1);
  });

  test('a machine that has become another is followed in some runs', () => {
    expect(after([...new Array<number>(20).fill(1), ...new Array<number>(12).fill(2)])).toBeGreaterThan(1.8);
  });

  test('a run that others disturbed says less, and nothing where they took most of the machine', () => {
    expect(after([1.3], { undisturbed: 0.5 })).toBeLessThan(after([1.3]));
    expect(after([1.3], { undisturbed: 0.5 })).toBeGreaterThan(1);
    expect(after([1.3, 1.3], { undisturbed: 0.2 })).toBe(1);
    expect(after([1.3], { undisturbed: NaN })).toBe(1);
  });

  test('short work says less, and next to none says nothing', () => {
    expect(after([1.3], { seconds: 0.5 })).toBeLessThan(after([1.3]));
    expect(after([1.3], { seconds: 0.1 })).toBe(1);
  });

  test('whatever runs took: factors are sane, between what was seen and no correction, and the same for the same runs', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            ratio: fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
            undisturbed: fc.double({ min: 0, max: 1, noNaN: true }),
          }),
          { maxLength: 20 },
        ),
        (runs) => {
          let learned: Learned = {};
          for (const { ratio, undisturbed } of runs)
            learned = learn(learned, { [KIND]: { seconds: ratio, profileSeconds: 1 } }, undisturbed);
          const factor = correctionsOf(learned)?.[KIND] ?? 1;
          const ratios = [1, ...runs.map(({ ratio }) => Math.min(4, Math.max(0.25, ratio)))];
          expect(factor).toBeGreaterThanOrEqual(Math.min(...ratios) - 1e-3);
          expect(factor).toBeLessThanOrEqual(Math.max(...ratios) + 1e-3);
          for (const each of Object.values(learned)) expect(each.weight <= 4 && each.runs >= 1).toBe(true);
        },
      ),
    );
  });

  test('what is no kind of work, or no time, is left out', () => {
    const odd = {
      'compute.decode.q5.64': { seconds: 5, profileSeconds: 1 },
      nonsense: { seconds: 5, profileSeconds: 1 },
      overlap: { seconds: NaN, profileSeconds: 1 },
      between: { seconds: 1, profileSeconds: 0 },
    };
    expect(learn({}, odd, 1)).toEqual({});
    expect(correctionsOf({})).toBeUndefined();
    expect(['__proto__', 'compute.decode.q4.5', 'disk.read.x', 'disk'].some((kind) => WORK_KIND.test(kind))).toBe(
      false,
    );
  });
});
