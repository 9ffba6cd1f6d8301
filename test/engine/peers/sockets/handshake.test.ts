import { describe, expect, test } from '@jest/globals';
import { checkFit, payloadOf, reasonIn, reasonOf } from '../../../../src/engine/peers/sockets/handshake.js';
import { whole } from '../../../../src/engine/peers/sockets/codecs.js';
import { PeerError } from '../../../../src/errors/engineErrors.js';

const identity = new Map([
  ['model', '"ab"'],
  ['numerics', '3'],
]);
const layers = (first: number, count: number, of = 8): { first: number; count: number; of: number } => ({
  first,
  count,
  of,
});

describe('engines go together', () => {
  test('where model, arithmetic and layers do', () => {
    expect(() => {
      checkFit({ role: 'forward', identity, layers: layers(0, 3) }, { identity, layers: layers(3, 2) }, 'b');
      checkFit({ role: 'return', identity, layers: layers(0, 3) }, { identity, layers: layers(5, 3) }, 'b');
      checkFit({ role: 'ask', identity: new Map(), layers: layers(0, 0, 0) }, { identity, layers: layers(5, 3) }, 'b');
    }).not.toThrow();
  });

  test.each([
    [
      'another model',
      { identity: new Map([...identity, ['model', '"cd"']]), layers: layers(3, 2) },
      'model: found "cd"',
    ],
    ['other arithmetic', { identity: new Map([...identity, ['numerics', '4']]), layers: layers(3, 2) }, 'numerics'],
    ['less of it', { identity: new Map([['model', '"ab"']]), layers: layers(3, 2) }, 'numerics: found nothing'],
    [
      'more',
      { identity: new Map([...identity, ['new', '1']]), layers: layers(3, 2) },
      'new: found 1, expected nothing',
    ],
    ['a gap', { identity, layers: layers(4, 2) }, 'layers 4 to 5 of 8, expected the engine of layer 3'],
    ['another depth', { identity, layers: layers(3, 2, 9) }, 'of 9'],
  ])('not with %s', (_, behind, words) => {
    expect(() => {
      checkFit({ role: 'forward', identity, layers: layers(0, 3) }, behind, 'b');
    }).toThrow(PeerError);
    expect(() => {
      checkFit({ role: 'forward', identity, layers: layers(0, 3) }, behind, 'b');
    }).toThrow(words);
  });

  test('nor where results are to come from layers that are not the last', () => {
    expect(() => {
      checkFit({ role: 'return', identity, layers: layers(0, 3) }, { identity, layers: layers(3, 2) }, 'b');
    }).toThrow(/last layers/);
  });
});

test('reasons are one short line, whoever sends them', () => {
  const sent = (message: string): string =>
    reasonIn({ name: 'end', payload: Buffer.concat(reasonOf(new Error(message))) });
  expect(sent('a\nb\u001b[2Jc')).toBe('a b [2Jc');
  expect(sent('é'.repeat(10_000)).length).toBeLessThan(300);
  expect(() => reasonIn({ name: 'end', payload: Buffer.concat(payloadOf(whole, 2 ** 40)) })).toThrow(PeerError);
});
