import { describe, expect, test } from '@jest/globals';
import { PartialSums } from '../../../src/engine/peers/PartialSums.js';
import type { PartialMessage } from '../../../src/engine/peers/PeerMessage.js';

const TOKENS = 3;
const taskOf = (pass: number, slot = 0): Parameters<PartialSums['reduce']>[0] => ({
  name: 'all_reduce',
  batch: { pass, slot, rows: [{ row: 0, firstPosition: 0, tokens: TOKENS, head: 'none' }] },
  layer: 0,
});
const partOf = (engine: number, pass: number, slot = 0): Float32Array =>
  Float32Array.from({ length: TOKENS * 4 }, (_, at) => 1000 * pass + 100 * slot + 10 * engine + at / 16);
const sumOf = (pass: number, slot = 0): Float32Array =>
  partOf(0, pass, slot).map((value, at) => value + (partOf(1, pass, slot)[at] ?? NaN));

describe('exchanges', () => {
  /** What an engine has for another one in a pass: as much for each. */
  const goingOf = (from: number, to: number, pass: number): number[] =>
    [0, 1].map((at) => 1000 * pass + 10 * from + to + at / 16);

  test.each([2, 3, 4])('of %d engines copy what goes, and give what came last back', async (of) => {
    const memories = Array.from({ length: of }, () => new Set<ArrayBufferLike>());
    const added: Float32Array[][] = Array.from({ length: of }, () => []);
    const engines: PartialSums[] = Array.from(
      { length: of },
      (_, index) =>
        new PartialSums({ index, of }, 1, {
          send: (message) => {
            memories[index]?.add(message.values.buffer);
            // What comes over a socket is memory of the receiver's.
            engines[(index + 1) % of]?.arrive({ ...message, values: message.values.slice() });
          },
          awaited: () => undefined,
          added: (values) => void added[index]?.push(values),
        }),
    );
    const passes = 6;
    const goings = engines.map(() => new Float32Array(2 * (of - 1)));
    await Promise.all(
      engines.map(async (engine, index) => {
        for (let pass = 0; pass < passes; pass++) {
          const going = goings[index] ?? new Float32Array(0);
          going.set(
            Array.from({ length: of - 1 }, (_, ahead) => goingOf(index, (index + 1 + ahead) % of, pass)).flat(),
          );
          const exchanged = engine.exchange({ ...taskOf(pass), name: 'all_to_all' }, going, () => 2);
          going.fill(NaN);
          const arrived = await exchanged;
          for (let from = 0; from < of; from++)
            if (from !== index) expect([...(arrived[from] ?? [])]).toEqual(goingOf(from, index, pass));
          engine.giveBack(arrived);
          // That of the engine after, which came all the way round: nothing of it went any further.
          expect(added[index]?.[pass]).toBe(arrived[(index + 1) % of]);
        }
      }),
    );
    expect(added.map(({ length }) => length)).toEqual(engines.map(() => passes));
    // Two places in turn, and what others sent that goes on from here.
    if (of === 2) expect(memories.map(({ size }) => size)).toEqual([2, 2]);
  });
});

describe('sums of two engines', () => {
  test('are right in every slot, and what goes has two places in each, in turn', async () => {
    const memories = [new Set<ArrayBufferLike>(), new Set<ArrayBufferLike>()];
    let added = 0;
    const engines: PartialSums[] = [0, 1].map(
      (index) =>
        new PartialSums({ index, of: 2 }, 2, {
          send: (message) => {
            memories[index]?.add(message.values.buffer);
            engines[1 - index]?.arrive(message);
          },
          awaited: () => undefined,
          added: () => {
            added++;
          },
        }),
    );
    const passes = 40;
    const inSlot = async (engine: PartialSums, index: number, slot: number): Promise<void> => {
      for (let pass = 0; pass < passes; pass++)
        expect(await engine.reduce(taskOf(pass, slot), partOf(index, pass, slot))).toEqual(sumOf(pass, slot));
    };
    await Promise.all(engines.flatMap((engine, index) => [0, 1].map((slot) => inSlot(engine, index, slot))));
    expect(memories.map(({ size }) => size)).toEqual([4, 4]);
    expect(added).toBe(2 * 2 * passes);
  });

  test('are right where one engine is a whole sum ahead of the other', async () => {
    const held: PartialMessage[] = [];
    const events = { awaited: () => undefined, added: () => undefined };
    const first: PartialSums = new PartialSums({ index: 0, of: 2 }, 1, {
      ...events,
      send: (message) => held.push(message),
    });
    const second: PartialSums = new PartialSums({ index: 1, of: 2 }, 1, {
      ...events,
      send: (message) => {
        first.arrive(message);
      },
    });
    const passes = 6;
    const sums: Float32Array[] = [];
    const going = (async () => {
      for (let pass = 0; pass < passes; pass++) sums.push(await second.reduce(taskOf(pass), partOf(1, pass)));
    })();
    for (let pass = 0; pass < passes; pass += 2) {
      expect(await first.reduce(taskOf(pass), partOf(0, pass))).toEqual(sumOf(pass));
      // The first one begins the next sum, and the second one has not got what it needs for this one.
      const ahead = first.reduce(taskOf(pass + 1), partOf(0, pass + 1));
      expect([sums.length, held.length]).toEqual([pass, 2]);
      for (const message of held.splice(0)) second.arrive(message);
      expect(await ahead).toEqual(sumOf(pass + 1));
    }
    await going;
    expect(sums).toEqual(Array.from({ length: passes }, (_, pass) => sumOf(pass)));
  });
});
