import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { SpillwayError, type Row } from '../../src/index.js';
import * as frames from '../../src/engine/peers/sockets/frames.js';
import * as messageFrames from '../../src/engine/peers/sockets/messageFrames.js';
import * as preambles from '../../src/engine/peers/sockets/preamble.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { HARMS, type Wire } from '../support/harmedFrames.js';
import {
  harmedPart,
  MANNERS,
  playBefore,
  playBehind,
  recorded,
  VICTIMS,
  type Impostor,
  type RecordedRun,
  type Victim,
} from '../support/hostileSocket.js';
import { socketRing, type SocketRing } from '../support/socketRing.js';
import { model } from './support.js';
import { inTurn, tries } from '../support/tries.js';

const path = temporaryFolder();
const wire: Wire = { ...frames, ...messageFrames, ...preambles };
const OPENED = {
  model: model('gemma3-mixed.gguf'),
  batchSize: 2,
  batches: 2,
  tokensPerSquare: 16,
  threads: 1,
} as const;
const SOON = { connectSeconds: 20, silenceSeconds: 3, stallSeconds: 3 } as const;
const rowsOf = (prompt: (at: number) => number[], maxNewTokens: number): Row[] =>
  Array.from({ length: 6 }, (_, at) => ({ id: at, tokens: prompt(at), maxNewTokens }));
const rows = rowsOf((at) => [1, 3 + at, 7, 9 + at], 3);
const others = rowsOf((at) => [2, 5 + at, 8], 5);

const served: Promise<Error | undefined>[] = [];
let rings: readonly SocketRing[] = [];
let runs: { readonly run: RecordedRun; readonly other: RecordedRun } | undefined;
let reference = '';

async function generated({ first }: SocketRing, addresses: readonly string[], given = rows): Promise<string> {
  const results: unknown[] = [];
  const peers = await first.connect(addresses, SOON);
  for await (const row of first.generate(given, { peers, logprobs: 2 })) results.push(row);
  return JSON.stringify(results);
}

beforeAll(async () => {
  const listening = { ...SOON, onRun: (run: { readonly ended: Promise<Error | undefined> }) => served.push(run.ended) };
  rings = [
    await socketRing([1, 2, 1], OPENED, () => '127.0.0.1:0', listening),
    await socketRing([1, 2, 1], OPENED, (index) => `unix:${path(`${index}.sock`)}`, listening),
  ];
  const [ring] = rings;
  if (!ring) throw new Error('not open');
  const [middle = '', last = ''] = ring.addresses;
  const record = (given: readonly Row[]): Promise<RecordedRun> =>
    recorded(wire, [middle, last], async (addresses) => {
      served.length = 0;
      reference = await generated(ring, addresses, [...given]);
      await Promise.all(served);
    });
  runs = { other: await record(others), run: await record(rows) };
});
afterAll(async () => {
  for (const ring of rings) await ring[Symbol.asyncDispose]();
});

/** What the engine that is left ends its run with, if it has begun one. */
async function attacked(ring: SocketRing, victim: Victim, play: Impostor, name: string): Promise<readonly unknown[]> {
  if (!runs) throw new Error('nothing was recorded');
  if (victim === 'first') {
    const errors: unknown[] = [];
    const at = ring === rings[0] ? '127.0.0.1:0' : `unix:${path('impostor.sock')}`;
    await playBehind(wire, runs.run, play, at, (addresses) =>
      generated(ring, addresses).then(
        () => undefined,
        (error: unknown) => void errors.push(error),
      ),
    );
    return errors;
  }
  served.length = 0;
  await playBefore(wire, ring.addresses[victim === 'middle' ? 0 : 1] ?? '', runs.run, name, victim, play);
  return (await Promise.all(served)).filter((error) => error !== undefined);
}

describe('a peer of no good will', () => {
  test.each([...HARMS, 'greeting'] as const)(
    '%s, to any engine of a ring: a documented error or none, and the next one is served, with the same bits',
    async (harm) => {
      await fc.assert(
        fc.asyncProperty(fc.gen(), fc.constantFrom(...VICTIMS), fc.nat(1), async (draw, victim, kind) => {
          const ring = rings[kind];
          if (!ring || !runs) throw new Error('not open');
          const whole = (min: number, max: number): number => draw(fc.integer, { min, max });
          const name = draw(fc.string, { unit: fc.constantFrom(...'0123456789abcdef'), minLength: 32, maxLength: 32 });
          const play = { ...harmedPart(wire, runs, victim, harm, whole), manner: 'plain' as const };
          for (const error of await attacked(ring, victim, play, name)) expect(error).toBeInstanceOf(SpillwayError);
          expect(await generated(ring, ring.addresses)).toBe(reference);
        }),
        { numRuns: tries(1, 10) },
      );
    },
  );

  test.each(MANNERS.flatMap((manner, nth) => inTurn(VICTIMS, nth).map((victim) => [manner, victim] as const)))(
    'in the manner "%s", to the %s engine',
    async (manner, victim) => {
      const [ring] = rings;
      if (!ring || !runs) throw new Error('not open');
      const { said } = harmedPart(wire, runs, victim, 'end', (least, most) => Math.floor((least + most) / 2));
      const errors = await attacked(ring, victim, { said, manner }, manner.padEnd(32, victim));
      expect(errors).toHaveLength(1);
      expect(errors[0]).toBeInstanceOf(SpillwayError);
      if (manner === 'stalled') expect(String(errors[0])).toMatch(/for 3 s/);
      expect(await generated(ring, ring.addresses)).toBe(reference);
    },
  );
});
