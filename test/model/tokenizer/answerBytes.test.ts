import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import { fixture, jsonSource, open, strings } from './fixtures.js';

const OPENERS = [
  ...[
    'smollm',
    'gpt-neox',
    'falcon',
    'opt',
    'qwen2',
    'llama3',
    'tekken',
    'added-tokens',
    'unigram',
    'llama2',
    'mistral',
    'gemma',
  ].map((name) => [name, 'tokenizer.json'] as const),
  ...['smollm', 'llama2', 'gemma'].map((name) => [name, 'gguf'] as const),
];
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The bytes of a row's tokens, one after another; undefined where they are no UTF-8, and the text has U+FFFD in their
 * place.
 */
function textOf({ answerBytes }: Tokenizer, tokens: readonly number[]): string | undefined {
  if (!answerBytes) throw new Error('its tokens are no text by themselves');
  // Special tokens are left out of the text, and the first of the others is its beginning.
  let first = true;
  const all: number[] = [];
  for (const token of tokens) {
    if (answerBytes(token, false).length === 0) continue;
    all.push(...answerBytes(token, first));
    first = false;
  }
  try {
    return strict.decode(Uint8Array.from(all));
  } catch {
    return undefined;
  }
}

describe.each(OPENERS)('bytes of the tokens of %s from %s', (name, format) => {
  const tokenizer = open(name, format);
  const size = Object.keys(fixture(name).tokenizer.model.vocab as object).length + 30;

  test('joined are the text of an answer', () => {
    for (const text of strings) {
      const ids = tokenizer.encode(text, { specialTokens: false });
      const joined = textOf(tokenizer, ids);
      if (joined !== undefined) expect(joined).toBe(tokenizer.decode(ids));
    }
    let compared = 0;
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.nat(size), fc.nat(270)), { maxLength: 8 }), (ids) => {
        const joined = textOf(tokenizer, ids);
        if (joined === undefined) return;
        compared++;
        expect(joined).toBe(tokenizer.decode(ids));
      }),
      { numRuns: 300 },
    );
    expect(compared).toBeGreaterThan(50);
  });

  test('special tokens, and ids without a token, have none', () => {
    for (const token of tokenizer.endTokens) expect(tokenizer.answerBytes?.(token, true)).toHaveLength(0);
    expect(tokenizer.answerBytes?.(99_999, false)).toHaveLength(0);
  });
});

test('a blank that is dropped where an answer begins is no byte there', () => {
  const { answerBytes, encode } = open('llama2');
  const [token = -1] = open('llama2').encode('hello', { specialTokens: false });
  expect(encode).toBeDefined();
  expect(Buffer.from(answerBytes?.(token, true) ?? []).toString()).toMatch(/^h/);
  expect(Buffer.from(answerBytes?.(token, false) ?? []).toString()).toMatch(/^ h/);
});

test('where a decoder looks at several tokens there are no bytes of one', () => {
  const { tokenizer, config } = fixture('smollm');
  const decoder = {
    type: 'Sequence',
    decoders: [{ type: 'Fuse' }, { type: 'Replace', pattern: { String: 'ab' }, content: 'c' }],
  };
  expect(createTokenizer(jsonSource({ ...tokenizer, decoder }, config), 100_000).answerBytes).toBeUndefined();
});
