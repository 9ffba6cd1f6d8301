import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { drained, valueOf } from '../../../src/collections/drained.js';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { Fields } from '../../../src/model/files/Fields.js';
import { CharacterMap } from '../../../src/model/tokenizer/CharacterMap.js';
import { LimitError } from '../../../src/model/tokenizer/growth.js';
import { StepLimit, Steps } from '../../../src/regex/Steps.js';
import { fixture, open, strings } from './fixtures.js';

const fields = new Fields('tokenizer.json');
const read = (bytes: Uint8Array): CharacterMap => new CharacterMap(fields, 'map', bytes);
const steps = (): Steps => new Steps(2 ** 24);
const own = (): CharacterMap =>
  CharacterMap.ofBase64(
    fields,
    'map',
    (fixture('xlm-roberta').tokenizer.normalizer as { precompiled_charsmap: string }).precompiled_charsmap,
  );

/** A map of these nodes and texts. */
function mapOf(nodes: readonly number[], texts: string): Uint8Array {
  const bytes = Buffer.alloc(4 + 4 * nodes.length + Buffer.byteLength(texts));
  bytes.writeUInt32LE(4 * nodes.length);
  nodes.forEach((node, at) => bytes.writeUInt32LE(node >>> 0, 4 + 4 * at));
  bytes.write(texts, 4 + 4 * nodes.length);
  return bytes;
}

describe('what a map does', () => {
  test('a letter with its marks is one key; of two keys the shortest for tokenizers, the longest for SentencePiece', () => {
    const map = own();
    expect(drained(map.byClusters('cafe\u0301 \u2460\u0301!', steps()))).toBe('caf\u00e9 1!');
    expect(drained(map.byLongest('cafe\u0301 \u2460\u0301!', steps()))).toBe('caf\u00e9 1\u0301!');
  });

  test('a long text is what its parts are, wherever it is cut', () => {
    const map = own();
    const parts = strings.filter((text) => !/\p{Cs}/u.test(text));
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 6 }), (some) => {
        const text = `${some.join(' ')} `;
        const long = text.repeat(Math.ceil(30_000 / text.length));
        const once = drained(map.byClusters(text, steps()));
        expect(drained(map.byClusters(long, steps())) === once.repeat(long.length / text.length)).toBe(true);
        const longest = drained(map.byLongest(text, steps()));
        expect(drained(map.byLongest(long, steps())) === longest.repeat(long.length / text.length)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test('a long row is encoded as a short one is', () => {
    const tokenizer = open('xlm-roberta');
    const text = 'Caf\u00e9 cafe\u0301 \ufb01ne \u2460\u2461 \u0928\u092e\u0938\u094d\u0924\u0947 ';
    const ids = tokenizer.encode(text, { specialTokens: false });
    const many = valueOf(tokenizer.encodeInParts(text.repeat(2000), { specialTokens: false }));
    expect(many).toHaveLength(2000 * ids.length);
    expect(many.slice(-ids.length)).toEqual(ids);
  });
});

describe('maps that lie', () => {
  test.each<[string, Uint8Array, string]>([
    ['nothing', new Uint8Array(), 'map: found 0 bytes, expected a trie'],
    ['three bytes', Uint8Array.of(1, 2, 3), 'found 3 bytes'],
    ['no trie', mapOf([], 'a'), 'of which 0 are a trie'],
    ['half a node', Uint8Array.of(2, 0, 0, 0, 1, 1), 'of which 2 are a trie'],
    ['a trie beyond the end', Uint8Array.of(255, 255, 255, 255, 0, 0, 0, 0), 'of which 4294967295 are a trie'],
    ['a text without end', mapOf([0], 'a'.repeat(300)), 'found a text of 300 bytes, expected texts of at most 256'],
  ])('%s is refused', (_, bytes, message) => {
    expect(() => read(bytes)).toThrow(ModelFileError);
    expect(() => read(bytes)).toThrow(message);
  });

  test.each([[17], ['a*b'], [null]])('%j is no base64', (value) => {
    expect(() => CharacterMap.ofBase64(fields, 'map', value)).toThrow('expected a text in base64');
  });

  /** Every node leads by every byte to a node of the same kind: keys never end. */
  const endless = (leaf: boolean): Uint8Array => {
    const nodes = Array.from({ length: 256 }, (_, byte) => byte | (byte << 10) | (Number(leaf) << 8));
    return mapOf(nodes, `${'x'.repeat(200)}\0`.repeat(3));
  };

  test('keys without end cost counted steps', () => {
    const map = read(endless(false));
    const text = 'ab'.repeat(100_000);
    expect(() => drained(map.byLongest(text, steps()))).toThrow(StepLimit);
    expect(drained(map.byClusters(text, steps()))).toBe(text);
  });

  test('what would make a text too long is refused before it is there', () => {
    const map = read(endless(true));
    const text = 'a\u0301'.repeat(200_000);
    expect(() => drained(map.byClusters(text, steps()))).toThrow(LimitError);
  });

  test('any bytes are a map or are refused, and any map comes to an end', () => {
    const base = own();
    expect(base).toBeInstanceOf(CharacterMap);
    const real = Buffer.from(
      (fixture('xlm-roberta').tokenizer.normalizer as { precompiled_charsmap: string }).precompiled_charsmap,
      'base64',
    );
    const damaged = fc
      .array(fc.tuple(fc.nat(real.length - 1), fc.nat(255)), { minLength: 1, maxLength: 400 })
      .map((changes) => {
        const bytes = Buffer.from(real);
        for (const [at, value] of changes) bytes[at] = value;
        return bytes;
      });
    const anyBytes = fc.uint8Array({ minLength: 8, maxLength: 600 }).map((bytes) => {
      const size = bytes.length - 4 - ((bytes.length - 4) % 4);
      const made = Buffer.from(bytes);
      made.writeUInt32LE(Math.max(size - 8, 4));
      return made;
    });
    fc.assert(
      fc.property(fc.oneof(damaged, anyBytes), fc.constantFrom(...strings), (bytes, text) => {
        let map: CharacterMap;
        try {
          map = read(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelFileError);
          return;
        }
        for (const made of [() => map.byClusters(text, steps()), () => map.byLongest(text, steps())]) {
          try {
            expect(typeof drained(made())).toBe('string');
          } catch (error) {
            expect(error).toBeInstanceOf(LimitError);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
