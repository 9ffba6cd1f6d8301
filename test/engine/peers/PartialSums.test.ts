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
