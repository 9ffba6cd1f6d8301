import { expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/files/Fields.js';
import { Guard, threadMilliseconds } from '../../../src/model/tokenizer/Guard.js';

function busy(milliseconds: number): number {
  const end = performance.now() + milliseconds;
  let turns = 0;
  while (performance.now() < end) turns += 1;
  return turns;
}

const everyMillisecond = (): number => performance.now();

/** One whose patience is at its end, soon, with all of the time to itself: the next run has a 64th of it, 16 ms. */
function impatient(threadTime: () => number | undefined): Guard {
  let time: () => number | undefined = everyMillisecond;
  const guard = new Guard(new Fields('tokenizer.json'), () => time());
  for (let i = 0; i < 3; i++)
    expect(() => guard.row(0, Infinity, () => busy(60_000))).toThrow(/did not come to an end within/);
  time = threadTime;
  return guard;
}

/** As on a machine that is busy with other things. */
const hardlyAny = (): number => 1;

test('who has had the time is ended by what is left of it', () => {
  const guard = impatient(everyMillisecond);
  expect(() => guard.row(0, Infinity, () => busy(200))).toThrow(
    'tokenizer.json: tokenizer: found work on one text that did not come to an end within 16 ms',
  );
});

test('who was kept from having it is begun again, with more time, and ended by all of it', () => {
  const guard = impatient(hardlyAny);
  let begun = 0;
  const work = (milliseconds: number) => () => {
    begun += 1;
    return busy(milliseconds);
  };
  expect(guard.row(0, Infinity, work(40))).toBeGreaterThan(0);
  expect(begun).toBe(2);
  begun = 0;
  expect(() => guard.row(0, Infinity, work(60_000))).toThrow('within 16 ms');
  // A 64th, a 16th, a quarter, all, and all twice again.
  expect(begun).toBe(6);
});

test('the first to be ended is begun again, to know whether it had its time', () => {
  const run = (threadTime: () => number | undefined): number => {
    const guard = new Guard(new Fields('tokenizer.json'), threadTime);
    let begun = 0;
    const work = (): number => busy(++begun < 2 ? 60_000 : 0);
    expect(guard.row(0, Infinity, work)).toBe(0);
    const bad = new Guard(new Fields('tokenizer.json'), threadTime);
    begun = 0;
    expect(() => bad.row(0, Infinity, () => busy(++begun * 60_000))).toThrow('within 1000 ms');
    return begun;
  };
  expect([run(everyMillisecond), run(hardlyAny)]).toEqual([2, 3]);
});

test.each([
  ['a system that says nothing of threads', (): undefined => undefined, false],
  ['what cannot be begun again', hardlyAny, true],
] as const)('%s: a quarter of the time', (_, threadTime, once) => {
  const guard = impatient(threadTime);
  expect(guard.row(0, Infinity, () => busy(40), once)).toBeGreaterThan(0);
  expect(() => guard.row(0, Infinity, () => busy(60_000), once)).toThrow('within 250 ms');
});

(process.platform === 'linux' ? test : test.skip)('processor time of a thread: what it did, not what it waited', () => {
  const time = (): number => threadMilliseconds() ?? NaN;
  const before = time();
  busy(200);
  const worked = time() - before;
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  const waited = time() - before - worked;
  expect(worked).toBeGreaterThan(5);
  expect(worked).toBeLessThan(400);
  expect(waited).toBeLessThan(worked + 50);
});
