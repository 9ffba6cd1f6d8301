import { TurnQueue } from '../../src/collections/TurnQueue.js';

test('everyone has a turn of the event loop, in order, and whoever waits for the loop comes in between', async () => {
  const queue = new TurnQueue();
  const seen: (number | 'other')[] = [];
  const other = (): void => {
    seen.push('other');
    if (seen.length < 8) setImmediate(other);
  };
  setImmediate(other);
  await Promise.all(
    [0, 1, 2, 3].map(async (at) => {
      await queue.next();
      seen.push(at);
    }),
  );
  expect(seen.filter((each) => each !== 'other')).toEqual([0, 1, 2, 3]);
  for (const at of [0, 1, 2]) expect(seen.slice(seen.indexOf(at), seen.indexOf(at + 1))).toContain('other');
});
