import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError } from '../../../src/errors/engineErrors.js';
import { checkMessage } from '../../../src/engine/peers/checkMessage.js';

const sequence = {
  tokens: [1, 2],
  capacityTokens: 4,
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  seed: 0,
  logprobs: -1,
};
const range = { row: 0, firstPosition: 0, tokens: 2, head: 'sample' };
const GOOD = {
  begin: {
    kind: 'begin',
    model: { layers: 2, hiddenSize: 8, vocabularySize: 9, family: 'llama', contents: 'a1' },
    nextLayer: 1,
    grid: { slots: 1, rowsPerSlot: 1, tokensPerSquare: 8 },
    engines: 1,
    streams: false,
    cache: { pageTokens: 4, diskShare: 0, mostDiskPages: 0 },
    pages: { gpu: 0, memory: 4, disk: 0 },
    sharesPages: true,
  },
  open: {
    kind: 'open',
    row: 0,
    newTokens: 2,
    sequence,
    sharing: { pages: [7, 3], copy: { page: 0, position: 9 }, own: [12] },
  },
  prefix: { kind: 'open', row: 1, newTokens: 0, sequence, prefix: true, sharing: { pages: [], own: [] } },
  sweep: { kind: 'sweep', interleaved: true, batches: [{ pass: 0, slot: 0, rows: [range] }] },
  partial: { kind: 'partial', pass: 0, slot: 0, layer: 1, step: 0, values: new Float32Array(16) },
  hidden: { kind: 'hidden', pass: 0, slot: 0, hidden: new Float32Array(16) },
  head: {
    kind: 'head',
    pass: 0,
    slot: 0,
    output: {
      sampled: new Map([[0, { token: 3, logprob: NaN, top: [{ token: 1, logprob: -1 }] }]]),
      scored: new Map([[1, new Float32Array(2)]]),
    },
  },
  close: { kind: 'close', row: 0 },
  free: { kind: 'free', page: 7 },
} as const;

describe('checkMessage', () => {
  test.each(Object.values(GOOD))('takes a $kind as engines send it, also cloned', (message) => {
    expect(checkMessage(message)).toBe(message);
    expect(checkMessage(structuredClone(message))).toEqual(message);
  });

  test.each<[unknown, string]>([
    [undefined, 'message: found undefined, expected an object'],
    [{ ...GOOD.partial, values: [1] }, 'partial.values: found an array of 1, expected a Float32Array'],
    [{ ...GOOD.partial, layer: -1 }, 'partial.layer: found -1, expected a whole number of at least 0'],
    [{ ...GOOD.begin, share: { next: 1 } }, 'begin.share.of: found undefined, expected a whole number of at least 0'],
    [
      { kind: 'toString' },
      'message.kind: found "toString", expected begin, open, sweep, hidden, partial, head, close, free, prompt, pages',
    ],
    [
      { ...GOOD.begin, pages: { gpu: 0, memory: NaN, disk: 0 } },
      'begin.pages.memory: found NaN, expected a whole number of at least 0',
    ],
    [{ ...GOOD.begin, model: null }, 'begin.model: found null, expected an object'],
    [{ ...GOOD.open, sequence: { ...sequence, tokens: 'abc' } }, 'open.sequence.tokens: found "abc", expected a list'],
    [
      { ...GOOD.open, sequence: { ...sequence, logprobs: -2 } },
      'open.sequence.logprobs: found -2, expected a whole number of at least -1',
    ],
    [
      { ...GOOD.begin, cache: { ...GOOD.begin.cache, mostFetchedPages: 0 } },
      'begin.cache.mostFetchedPages: found 0, expected a whole number of at least 1',
    ],
    [
      { ...GOOD.begin, cache: { ...GOOD.begin.cache, mostFetchedPages: Infinity } },
      'begin.cache.mostFetchedPages: found Infinity, expected a whole number of at least 1',
    ],
    [{ ...GOOD.begin, engines: 0 }, 'begin.engines: found 0, expected a whole number of at least 1'],
    [{ ...GOOD.begin, streams: 'no' }, 'begin.streams: found "no", expected true or false'],
    [{ ...GOOD.begin, sharesPages: 1 }, 'begin.sharesPages: found 1, expected true or false'],
    [{ ...GOOD.prefix, newTokens: 3 }, 'open.newTokens: found 3, expected 0 for a prefix'],
    [{ ...GOOD.open, prefix: 'yes' }, 'open.prefix: found "yes", expected true or false'],
    [{ ...GOOD.open, sharing: [1] }, 'open.sharing: found an array of 1, expected an object'],
    [
      { ...GOOD.open, sharing: { pages: [1, -1], own: [] } },
      'open.sharing.pages: found -1, expected a whole number of at least 0',
    ],
    [{ ...GOOD.open, sharing: { pages: [], own: 3 } }, 'open.sharing.own: found 3, expected a list'],
    [
      { ...GOOD.open, sharing: { pages: [], own: [], copy: { page: 1 } } },
      'open.sharing.copy.position: found undefined, expected a whole number of at least 0',
    ],
    [
      { ...GOOD.sweep, batches: [{ pass: 0, slot: 0, rows: [{ ...range, sharedTokens: NaN }] }] },
      'sweep.batches.rows.sharedTokens: found NaN, expected a whole number of at least 0',
    ],
    [{ ...GOOD.free, page: 0.5 }, 'free.page: found 0.5, expected a whole number of at least 0'],
    [
      { ...GOOD.sweep, batches: [{ pass: 0, slot: 0, rows: [{ ...range, head: 'x' }] }] },
      'sweep.batches.rows.head: found "x", expected none, sample or score',
    ],
    [{ ...GOOD.hidden, hidden: [1, 2] }, 'hidden.hidden: found an array of 2, expected a Float32Array'],
    [
      { ...GOOD.head, output: { sampled: {}, scored: new Map() } },
      'head.output.sampled: found an empty object, expected a Map',
    ],
    [{ ...GOOD.close, row: 2 ** 53 }, 'close.row: found 9007199254740992, expected a whole number of at least 0'],
  ])('refuses %p', (message, words) => {
    expect(() => checkMessage(message)).toThrow(new PeerError(words));
  });

  test('whatever comes: a message or a PeerError', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(GOOD)),
        fc.anything({ withMap: true, withTypedArray: true }),
        fc.nat(),
        (message, value, at) => {
          const keys = Object.keys(message);
          const changed: unknown = at % 7 === 0 ? value : { ...message, [keys[at % keys.length] ?? '']: value };
          try {
            checkMessage(changed);
          } catch (error) {
            expect(error).toBeInstanceOf(PeerError);
          }
        },
      ),
    );
  });
});
