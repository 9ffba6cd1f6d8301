import { expect, test } from '@jest/globals';
import { type JudgedRow, learnedThreshold } from '../../src/cascade/learnedThreshold.js';

/** Numbers from 0 below 1 that follow from a seed. */
function drawn(seed: number): () => number {
  let state = seed * 2_654_435_761 + 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/** Models, and how likely each differs where it is so sure. */
const MODELS: Readonly<Record<string, (confidence: number) => number>> = {
  calibrated: (confidence) => 1 - confidence,
  'a little too sure': (confidence) => Math.min(1, 1.5 * (1 - confidence)),
  'sure of what is wrong': (confidence) => 0.5 * confidence,
  'right as often whatever it says': () => 0.04,
};

test.each(Object.keys(MODELS))('a model that is %s keeps the promise in 95 of 100 draws', (name) => {
  const differs = MODELS[name] ?? ((): number => 1);
  const [risk, chance, rows] = [0.05, 0.05, 300];
  let [kept, stood] = [0, 0];
  const draws = 400;
  for (let draw = 0; draw < draws; draw++) {
    const next = drawn(draw + 1);
    const sample = Array.from({ length: rows }, (): JudgedRow => {
      // Some are equal, as with few labels.
      const confidence = Math.round(100 * next()) / 100;
      return { confidence, agrees: next() >= differs(confidence) };
    });
    const { threshold } = learnedThreshold(sample, { risk, chance });
    const from = threshold === null ? 101 : Math.round(100 * threshold);
    // Of all rows: confidences 0 and 1 are half as likely as the others.
    let wrong = 0;
    for (let at = from; at <= 100; at++) wrong += differs(at / 100) * (at === 0 || at === 100 ? 0.005 : 0.01);
    if (wrong <= risk) kept++;
    if (threshold !== null) stood++;
  }
  expect(kept / draws).toBeGreaterThanOrEqual(0.95 - 2 * Math.sqrt((0.05 * 0.95) / draws));
  if (name === 'calibrated') expect(stood).toBeGreaterThan(0.99 * draws);
});

test('equal confidences stand or fall together', () => {
  const sample = [
    ...Array.from({ length: 200 }, () => ({ confidence: 0.9, agrees: true })),
    ...Array.from({ length: 100 }, (_, at) => ({ confidence: 0.8, agrees: at % 2 === 0 })),
  ];
  expect(learnedThreshold(sample, { risk: 0.05, chance: 0.05 })).toMatchObject({
    threshold: 0.9,
    rows: 300,
    stand: 200,
    differ: 0,
  });
});

test('with too few rows, or where the surest are wrong, no answer stands', () => {
  const sure = Array.from({ length: 20 }, () => ({ confidence: 1, agrees: true }));
  expect(learnedThreshold(sure, { risk: 0.02, chance: 0.05 })).toMatchObject({ threshold: null, stand: 0 });
  const wrong = Array.from({ length: 500 }, () => ({ confidence: 1, agrees: false }));
  expect(learnedThreshold(wrong, { risk: 0.1, chance: 0.05 }).threshold).toBeNull();
  expect(learnedThreshold([], { risk: 0.1, chance: 0.05 })).toMatchObject({ threshold: null, rows: 0, bound: 1 });
});

test('where all may stand the least sure one says from when on, and errors never do', () => {
  const agree = Array.from({ length: 400 }, (_, at) => ({ confidence: (at + 1) / 400, agrees: true }));
  const { threshold, stand } = learnedThreshold([...agree, { confidence: -1, agrees: true }], {
    risk: 0.1,
    chance: 0.05,
  });
  expect([threshold, stand]).toEqual([1 / 400, 400]);
});
