import { describe, expect, test } from '@jest/globals';
import type { LogitAdjustments } from '../../../src/engine/grid/Device.js';
import { logitAdjustments, tokenLists } from '../../../src/engine/rows/logitAdjustments.js';
import { drained } from '../../../src/collections/drained.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const NONE = { presencePenalty: 0, frequencyPenalty: 0, minNewTokens: 0, ...tokenLists({}) };
const adjusted = (options: Partial<typeof NONE>): LogitAdjustments | undefined =>
  drained(logitAdjustments({ ...NONE, ...options }, new Set([3, 99]), letterTokenizer(), 27));

describe('tokenLists', () => {
  test.each([
    ['logitBias', [1], 'logitBias: found an array'],
    ['logitBias', { '-1': 2 }, 'logitBias: found "-1", expected token ids as keys'],
    ['logitBias', { a: 2 }, 'logitBias: found "a", expected token ids as keys'],
    ['logitBias', { 1: 101 }, 'logitBias["1"]: found 101, expected a number from -100 to 100'],
    ['logitBias', { 1: '2' }, 'logitBias["1"]: found "2"'],
    ['stopTokenIds', 5, 'stopTokenIds: found 5, expected a list'],
    ['stopTokenIds', [1, -1], 'stopTokenIds[1]: found -1, expected a token id'],
    ['stopTokenIds', [1.5], 'stopTokenIds[0]: found 1.5'],
    ['badWords', 'a', 'badWords: found "a", expected a list'],
    ['badWords', [''], 'badWords[0]: found ""'],
    ['badWords', ['x'.repeat(257)], 'badWords[0]: found'],
    ['badWords', new Array<string>(4097).fill('a'), 'badWords: found 4097 entries, expected at most 4096'],
  ])('%s %j is refused', (name, value, message) => {
    expect(() => tokenLists({ [name]: value })).toThrow(message);
  });

  test('what is absent is empty, null as well', () => {
    const empty = { logitBias: new Map(), stopTokenIds: [], badWords: [] };
    expect(tokenLists({})).toEqual(empty);
    expect(tokenLists({ logitBias: null, stopTokenIds: null, badWords: null } as never)).toEqual(empty);
  });
});

describe('logitAdjustments', () => {
  test('nothing is adjusted where nothing is asked for', () => {
    expect(adjusted({})).toBeUndefined();
    expect(adjusted({ logitBias: new Map([[4, 0]]) })).toBeUndefined();
    expect(adjusted({ stopTokenIds: [4] })).toBeUndefined();
  });

  test('end tokens that the model has are held back for the least of new ones', () => {
    expect(adjusted({ minNewTokens: 2 })).toMatchObject({ minNewTokens: 2, endTokens: [3] });
    expect(adjusted({ presencePenalty: 1 })).toMatchObject({ presencePenalty: 1, endTokens: [] });
  });

  test('ids that the model has not are refused', () => {
    expect(() => adjusted({ logitBias: new Map([[27, 1]]) })).toThrow(
      'logitBias[27]: found 27, expected an id under 27',
    );
  });

  test('a bad word is one with a blank before it, too, and each spelling once', () => {
    const plain = letterTokenizer().encode('ab');
    const blank = letterTokenizer().encode(' ab');
    const expected = plain.join() === blank.join() ? [plain] : [plain, blank];
    expect(adjusted({ badWords: ['ab'] })?.badWords).toEqual(expected);
  });
});
