import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PeerMessage } from '../../../../src/engine/peers/PeerMessage.js';
import { roundedToBfloat16, widenedFromBfloat16, type HiddenStates } from '../../../../src/engine/grid/HiddenStates.js';
import { messageIn, messagePayload } from '../../../../src/engine/peers/sockets/messageFrames.js';
import { PeerError } from '../../../../src/errors/engineErrors.js';

const whole = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const number = fc.double();
const floats = fc.float32Array({ maxLength: 20 });
const list = fc.array(whole, { maxLength: 8 });
const some = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T> => value;
const row = { row: whole };
const batch = fc.record({
  pass: whole,
  slot: whole,
  rows: fc.array(
    fc.record(
      {
        ...row,
        firstPosition: whole,
        tokens: whole,
        head: fc.constantFrom('none' as const, 'sample' as const, 'score' as const),
        sharedTokens: whole,
      },
      { requiredKeys: ['row', 'firstPosition', 'tokens', 'head'] },
    ),
    { maxLength: 4 },
  ),
});

const messages: fc.Arbitrary<PeerMessage> = fc.oneof(
  fc.record({
    kind: fc.constant('partial' as const),
    pass: whole,
    slot: whole,
    layer: whole,
    step: whole,
    values: floats,
  }),
  fc.record(
    {
      kind: fc.constant('begin' as const),
      model: fc.record({
        layers: whole,
        hiddenSize: whole,
        vocabularySize: whole,
        family: fc.string({ maxLength: 20 }),
        contents: fc.string({ maxLength: 64 }),
      }),
      nextLayer: whole,
      grid: fc.record({ slots: whole, rowsPerSlot: whole, tokensPerSquare: whole }),
      engines: fc.integer({ min: 1, max: 64 }),
      streams: fc.boolean(),
      cache: fc.record(
        {
          pageTokens: whole,
          diskShare: number,
          mostDiskPages: whole,
          gpuShare: number,
          mostFetchedPages: fc.integer({ min: 1 }),
        },
        { requiredKeys: ['pageTokens', 'diskShare', 'mostDiskPages'] },
      ),
      pages: fc.record({ gpu: whole, memory: whole, disk: whole }),
      sharesPages: fc.boolean(),
      share: fc.record({ next: whole, of: whole }),
    },
    {
      requiredKeys: [
        ...(['kind', 'model', 'nextLayer', 'grid', 'engines', 'streams', 'cache', 'pages', 'sharesPages'] as const),
      ],
    },
  ),
  fc.record(
    {
      kind: fc.constant('open' as const),
      ...row,
      newTokens: fc.constant(0),
      prefix: fc.boolean(),
      sequence: fc.record(
        {
          tokens: list,
          capacityTokens: whole,
          promptTokens: whole,
          temperature: number,
          topP: number,
          topK: whole,
          minP: number,
          repetitionPenalty: number,
          seed: whole,
          logprobs: fc.integer({ min: -1, max: 1000 }),
          candidates: list,
          pooling: fc.constantFrom('last' as const, 'mean' as const, 'first' as const),
        },
        {
          requiredKeys: [
            ...(['tokens', 'capacityTokens', 'temperature', 'topP', 'topK', 'minP'] as const),
            ...(['repetitionPenalty', 'seed', 'logprobs'] as const),
          ],
        },
      ),
      sharing: fc.record(
        { pages: list, copy: fc.record({ page: whole, position: whole }), own: list },
        { requiredKeys: ['pages', 'own'] },
      ),
    },
    { requiredKeys: ['kind', 'row', 'newTokens', 'sequence'] },
  ),
  fc.record({
    kind: fc.constant('sweep' as const),
    batches: fc.array(batch, { maxLength: 4 }),
    interleaved: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('hidden' as const), pass: whole, slot: whole, hidden: floats }),
  fc.record({
    kind: fc.constant('head' as const),
    pass: whole,
    slot: whole,
    output: fc.record({
      sampled: fc
        .array(
          fc.tuple(
            whole,
            fc.record(
              {
                token: whole,
                logprob: number,
                top: fc.array(fc.record({ token: whole, logprob: number }), { maxLength: 3 }),
                embedding: floats,
                notFinite: fc.record({ layer: whole }, { requiredKeys: [] }),
              },
              { requiredKeys: ['token', 'logprob', 'top'] },
            ),
          ),
          { maxLength: 4 },
        )
        .map((entries) => new Map(entries)),
      scored: fc.array(fc.tuple(whole, floats), { maxLength: 4 }).map((entries) => new Map(entries)),
    }),
  }),
  fc.record({ kind: fc.constant('close' as const), ...row }),
  fc.record({ kind: fc.constant('free' as const), page: whole }),
);

/** In memory of its own, as it comes from a socket. */
function payloadOf(message: PeerMessage): Buffer {
  const pieces = messagePayload(message);
  const payload = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    payload.set(piece, at);
    at += piece.length;
  }
  return payload;
}

describe('messages in frames', () => {
  test('are read as they were written, to the bit', () => {
    fc.assert(
      fc.property(some(messages), (message) => {
        expect(messageIn({ name: message.kind, payload: payloadOf(message) })).toEqual(message);
      }),
      { numRuns: 500 },
    );
  });

  test('hidden states as bfloat16 take half the bytes, by the closed form, and are read as they were rounded', () => {
    fc.assert(
      fc.property(fc.float32Array({ minLength: 1, maxLength: 100 }), (hidden) => {
        const message: PeerMessage = { kind: 'hidden', pass: 3, slot: 1, hidden };
        const bytes = (hiddenStates: HiddenStates): Buffer => Buffer.concat(messagePayload(message, hiddenStates));
        // Pass, slot and count are a byte each; float32 stands at multiples of four.
        expect(bytes('float32')).toHaveLength(4 + 4 * hidden.length);
        expect(bytes('bfloat16')).toHaveLength(3 + 2 * hidden.length);
        const read = messageIn({ name: 'hidden', payload: bytes('bfloat16') }, 'bfloat16');
        expect(read).toEqual({ ...message, hidden: widenedFromBfloat16(roundedToBfloat16(hidden)) });
        expect(() => messageIn({ name: 'hidden', payload: bytes('bfloat16').subarray(0, -1) }, 'bfloat16')).toThrow(
          PeerError,
        );
      }),
    );
  });

  test('whatever was done to the bytes: a message of that kind, or a PeerError', () => {
    fc.assert(
      fc.property(
        messages,
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        fc.option(fc.nat()),
        fc.uint8Array({ maxLength: 8 }),
        (message, changes, cut, more) => {
          const whole = payloadOf(message);
          for (const [at, byte] of changes) whole[at % whole.length] = byte;
          const payload = Buffer.concat([cut === null ? whole : whole.subarray(0, cut % whole.length), more]);
          try {
            expect(messageIn({ name: message.kind, payload }).kind).toBe(message.kind);
          } catch (error) {
            expect(error).toBeInstanceOf(PeerError);
          }
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('a count of more than there is costs nothing', () => {
    // 2^40 batches.
    const payload = Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
    expect(() => messageIn({ name: 'sweep', payload })).toThrow(/sweep.batches: found 0 bytes before the frame's end/);
    expect(() => messageIn({ name: 'hidden', payload: Buffer.from([0, 0, 0xff, 0xff, 0x7f]) })).toThrow(PeerError);
  });

  test('what no peer would take is not sent', () => {
    expect(() => messagePayload({ kind: 'close', row: -1 })).toThrow(PeerError);
    expect(() => messagePayload({ kind: 'free', page: 0.5 })).toThrow(PeerError);
  });
});
