import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  checkFrame,
  FRAME_NAMES,
  frameOf,
  HEADER_BYTES,
  readHeader,
} from '../../../../src/engine/peers/sockets/frames.js';
import { PeerError } from '../../../../src/errors/engineErrors.js';

const LIMITS = Object.fromEntries(FRAME_NAMES.map((name) => [name, 1000]));
const cases = fc.record({
  name: fc.constantFrom(...FRAME_NAMES),
  sequence: fc.nat(2 ** 31),
  payload: fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 3 }),
});

/** What a reader makes of the bytes. */
function read(bytes: Buffer, sequence: number): { readonly name: string; readonly payload: Buffer } {
  const header = bytes.subarray(0, HEADER_BYTES);
  const { name, length } = readHeader(header, sequence, LIMITS);
  const payload = bytes.subarray(HEADER_BYTES, HEADER_BYTES + length);
  checkFrame(header, payload);
  return { name, payload };
}

describe('frames', () => {
  test('are read as they were written', () => {
    fc.assert(
      fc.property(cases, ({ name, sequence, payload }) => {
        const bytes = Buffer.concat(frameOf(name, sequence, payload));
        expect(read(bytes, sequence)).toEqual({ name, payload: Buffer.concat(payload) });
      }),
    );
  });

  test('of which any bit was changed are refused', () => {
    fc.assert(
      fc.property(cases, fc.nat(), fc.integer({ min: 0, max: 7 }), ({ name, sequence, payload }, at, bit) => {
        const bytes = Buffer.concat(frameOf(name, sequence, payload));
        const place = at % bytes.length;
        bytes[place] = (bytes[place] ?? 0) ^ (1 << bit);
        expect(() => read(bytes, sequence)).toThrow(PeerError);
      }),
    );
  });

  test('that may not come, are too large or out of turn are refused by their header', () => {
    const header = (name: (typeof FRAME_NAMES)[number], bytes = 0): Buffer =>
      Buffer.concat(frameOf(name, 7, [Buffer.alloc(bytes)]).slice(0, 1));
    expect(() => readHeader(header('hidden'), 7, { ping: 0, credit: 8 })).toThrow(
      'frame: found "hidden", expected one of ping, credit',
    );
    expect(() => readHeader(header('hidden', 11), 7, { hidden: 10 })).toThrow(
      'frame "hidden": found 11 bytes, expected at most 10',
    );
    expect(() => readHeader(header('hidden'), 8, { hidden: 10 })).toThrow('frame: found number 7, expected 8');
    expect(readHeader(header('hidden', 10), 7, { hidden: 10 })).toMatchObject({ name: 'hidden', length: 10 });
  });
});
