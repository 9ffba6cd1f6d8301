import { describe, expect, test } from '@jest/globals';
import { RowFeed } from '../../../src/engine/execution/RowFeed.js';
import type { RunRow } from '../../../src/engine/execution/RunRow.js';

const row = (id: number): RunRow<number> => ({
  sequence: {
    tokens: [id],
    capacityTokens: 2,
    temperature: 0,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    seed: 0,
    logprobs: -1,
  },
  newTokens: 1,
  accept: () => undefined,
});
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const take = <Result>(feed: RowFeed<Result>): void => {
  const [first] = feed.rows;
  if (first) feed.take(first);
};

describe('RowFeed', () => {
  test('pulls as many rows ahead as it may, and one more for each that is taken', async () => {
    let pulled = 0;
    const source = (async function* () {
      for (;;) yield row(pulled++);
    })();
    const feed = new RowFeed(source, 3);
    await settle();
    expect(pulled).toBe(0); // not started
    feed.start();
    await settle();
    expect(pulled).toBe(3);
    expect(feed.rows[0]?.sequence.tokens).toEqual([0]);
    take(feed);
    await settle();
    expect(pulled).toBe(4);
    expect(feed.rows[0]?.sequence.tokens).toEqual([1]);
    feed.close();
  });

  test('pulls no further than bytes allow, but one row in any case', async () => {
    let pulled = 0;
    const source = (async function* () {
      for (;;)
        yield {
          ...row(0),
          sequence: { ...row(0).sequence, tokens: Array.from({ length: 10 }, () => pulled) },
        } as RunRow<number>;
    })();
    const counted = (async function* () {
      for await (const each of source) {
        pulled++;
        yield each;
      }
    })();
    const feed = new RowFeed(counted, 100, 5000);
    feed.start();
    await settle();
    // 80 bytes of tokens each, and 2 KiB for what else is kept of a row: the third is pulled while there is room, the
    // fourth is not.
    expect(pulled).toBe(3);
    take(feed);
    await settle();
    expect(pulled).toBe(4);
    feed.close();
    pulled = 0;
    const tight = new RowFeed(source, 100, 1);
    tight.start();
    await settle();
    expect(tight.rows).toHaveLength(1);
    tight.close();
  });

  test('has ended when the source has and no row waits', async () => {
    const feed = new RowFeed(
      (async function* () {
        yield row(0);
      })(),
      3,
    );
    let calls = 0;
    feed.onRow = () => calls++;
    feed.start();
    await settle();
    expect([feed.ended, calls]).toEqual([false, 2]);
    take(feed);
    expect(feed.ended).toBe(true);
  });

  test("keeps the source's failure, after the rows before it", async () => {
    const feed = new RowFeed(
      (async function* () {
        yield row(0);
        throw new Error('torn');
      })(),
      3,
    );
    feed.start();
    await settle();
    expect(feed.rows[0]).toBeDefined();
    expect(feed.failure).toEqual({ error: new Error('torn') });
  });

  test('closing tells the source, once, and forgets what waits', async () => {
    let returned = 0;
    const source = (async function* () {
      try {
        for (;;) yield row(0);
      } finally {
        returned++;
      }
    })();
    const feed = new RowFeed(source, 2);
    feed.start();
    await settle();
    feed.close();
    feed.close();
    await settle();
    expect([returned, feed.rows[0]]).toEqual([1, undefined]);
  });
});
