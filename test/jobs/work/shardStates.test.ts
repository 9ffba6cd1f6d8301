import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  cancelled,
  checkedState,
  committed,
  failed,
  givenBack,
  holds,
  isWaiting,
  leased,
  openShard,
  progressed,
} from '../../../src/jobs/work/shardStates.js';
import type { ShardState } from '../../../src/jobs/work/WorkSource.js';

const attempt = (number: number): string => number.toString(16).padStart(16, '0');

test('leased, given back, leased and failed, leased and committed', () => {
  const once = leased(openShard(4), attempt(1), 'w1', 2);
  expect(once).toEqual({ shard: 4, state: 'leased', deliveries: 1, attempt: attempt(1), worker: 'w1', reasons: [] });
  expect(givenBack(once, attempt(2))).toBeUndefined();
  const open = givenBack(once, attempt(1));
  expect(open).toEqual(openShard(4));
  const again = leased(open ?? once, attempt(2), 'w2', 2);
  const failure = failed(again, attempt(2), 'no luck', 2);
  expect(failure).toEqual({ shard: 4, state: 'open', deliveries: 1, worker: 'w2', reasons: ['w2: no luck'] });
  const last = leased(failure ?? again, attempt(3), 'w3', 2);
  expect(committed(last, attempt(3), 'w3')).toMatchObject({ state: 'committed', deliveries: 2, attempt: attempt(3) });
});

test('how far a shard is ends with its lease, however that ends', () => {
  const lease = progressed(leased(openShard(4), attempt(1), 'w1', 1), { rows: 7, rowsPerSecond: 2 });
  expect(lease.progress).toEqual({ rows: 7, rowsPerSecond: 2 });
  const ends = [
    leased(lease, attempt(2), 'w2', 1),
    leased(lease, attempt(2), 'w2', 2),
    committed(lease, attempt(1), 'w1'),
    givenBack(lease, attempt(1)),
    failed(lease, attempt(1), 'no luck', 1),
    cancelled(lease, 'enough'),
  ];
  expect(ends.map((end) => end?.state)).toEqual(['failed', 'leased', 'committed', 'open', 'failed', 'failed']);
  for (const end of ends) expect(end).not.toHaveProperty('progress');
});

/** What workers may ask for, in any order, each for the attempt of that number. */
const asked = fc.record({
  what: fc.constantFrom('lease', 'commit', 'giveBack', 'fail'),
  attempt: fc.integer({ min: 0, max: 5 }),
});

test('whatever workers ask for, in whatever order: who commits first stays, and deliveries are never too many', () => {
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 40 }), fc.integer({ min: 1, max: 4 }), (steps, maxDeliver) => {
      let state: ShardState = openShard(0);
      let first: string | undefined;
      for (const step of steps) {
        const own = attempt(step.attempt);
        const before = state;
        const next =
          step.what === 'lease'
            ? isWaiting(before)
              ? leased(before, own, 'w', maxDeliver)
              : undefined
            : step.what === 'commit'
              ? committed(before, own, 'w')
              : step.what === 'giveBack'
                ? givenBack(before, own)
                : failed(before, own, 'x'.repeat(1000), maxDeliver);
        if (next === undefined) continue;
        state = next;
        if (state.state === 'committed') first ??= own;
        if (first !== undefined) expect(state).toMatchObject({ state: 'committed', attempt: first });
        expect(state.deliveries).toBeLessThanOrEqual(maxDeliver);
        if (state.state === 'failed') expect(state.deliveries).toBe(maxDeliver);
        if (step.what === 'lease' && state.state === 'leased') expect(holds(state, own)).toBe(true);
        // A queue reads what it has written.
        const { shard, ...value } = JSON.parse(JSON.stringify(state)) as ShardState;
        expect(checkedState('q', shard, value)).toEqual(state);
      }
    }),
  );
});

test.each([
  [undefined],
  ['open'],
  [{ state: 'open' }],
  [{ state: 'done', deliveries: 0, reasons: [] }],
  [{ state: 'open', deliveries: -1, reasons: [] }],
  [{ state: 'open', deliveries: 1.5, reasons: [] }],
  [{ state: 'open', deliveries: 0, reasons: ['', '', '', ''] }],
  [{ state: 'open', deliveries: 0, reasons: ['x'.repeat(600)] }],
  [{ state: 'open', deliveries: 0, reasons: [], worker: 'x'.repeat(300) }],
  [{ state: 'committed', deliveries: 1, reasons: [] }],
  [{ state: 'leased', deliveries: 1, reasons: [], attempt: '../../../etc' }],
])('%.60j is no state', (value) => {
  expect(() => checkedState('nats://q job j', 7, value)).toThrow(
    /^nats:\/\/q job j: shard 7: found .*, expected its state, deliveries, attempt, worker and reasons$/,
  );
});
