import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { fixture, jsonSource, open } from './fixtures.js';
import { cpuSeconds } from '../support/expectBounded.js';
import { anyCharacter } from '../../support/anyCharacter.js';

const OPENERS = [
  ...['smollm', 'gpt-neox', 'added-tokens', 'unigram', 'llama2', 'mistral', 'gemma'].map(
    (name) => [name, 'tokenizer.json'] as const,
  ),
  ...['smollm', 'llama2', 'gemma'].map((name) => [name, 'gguf'] as const),
];

describe.each(OPENERS)('stream of %s from %s', (name, format) => {
  const tokenizer = open(name, format);
  const size = Object.keys(fixture(name).tokenizer.model.vocab as object).length + 30;

  test('the concatenation equals decode of all', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.nat(size), fc.nat(270)), { maxLength: 40 }), (ids) => {
        const stream = tokenizer.stream();
        let text = '';
        for (const id of ids) text += stream.push(id);
        expect(text + stream.end()).toBe(tokenizer.decode(ids));
      }),
    );
  });

  test('what is pushed never changes later: every prefix of the stream is a prefix of the whole', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 40 }), (text) => {
        const ids = tokenizer.encode(text, { specialTokens: false });
        const whole = tokenizer.decode(ids);
        const stream = tokenizer.stream();
        let out = '';
        for (const id of ids) {
          out += stream.push(id);
          expect(whole.startsWith(out)).toBe(true);
        }
      }),
    );
  });
});

test('bytes of an unfinished character are held back', () => {
  for (const [name, format] of [
    ['smollm', 'gguf'],
    ['llama2', 'gguf'],
  ] as const) {
    const tokenizer = open(name, format);
    const ids = tokenizer.encode('\u{1f9ff}', { specialTokens: false });
    expect(ids.length).toBeGreaterThan(2);
    const stream = tokenizer.stream();
    const pushed = ids.map((id) => stream.push(id));
    expect(pushed.slice(0, -1).join('').trim()).toBe('');
    expect(pushed.join('') + stream.end()).toBe('\u{1f9ff}');
  }
});

test('no tokens have no text, special tokens none unless asked for, ids without a token none at all', () => {
  const tokenizer = open('smollm', 'gguf');
  expect(tokenizer.decode([])).toBe('');
  expect(tokenizer.stream().end()).toBe('');
  const [start] = tokenizer.encode('<|im_start|>');
  expect(tokenizer.decode([start ?? -1])).toBe('');
  expect(tokenizer.decode([start ?? -1], { skipSpecial: false })).toBe('<|im_start|>');
  expect(tokenizer.text(start ?? -1)).toBe('<|im_start|>');
  expect(tokenizer.decode([99_999])).toBe('');
});

test('blanks before punctuation survive, whatever the configuration says', () => {
  const tokenizer = open('smollm', 'tokenizer.json', { clean_up_tokenization_spaces: true });
  expect(tokenizer.decode(tokenizer.encode("a , b . c ? n't 's"))).toBe("a , b . c ? n't 's");
});

test('decoders that look at the whole text give it at the end', () => {
  const { tokenizer, config } = fixture('llama2');
  const decoders = [
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
    { type: 'Strip', content: ' ', start: 1, stop: 1 },
  ];
  const built = createTokenizer(jsonSource({ ...tokenizer, decoder: { type: 'Sequence', decoders } }, config), 1000);
  const ids = built.encode('a text ', { specialTokens: false });
  const stream = built.stream();
  expect(ids.map((id) => stream.push(id)).join('')).toBe('');
  expect(stream.end()).toBe('a text');
  expect(built.decode(ids)).toBe('a text');
});

test('without a decoder tokens are joined by blanks', () => {
  const { tokenizer } = fixture('smollm');
  const built = createTokenizer(jsonSource({ ...tokenizer, decoder: null }), 2000);
  expect(built.decode(built.encode('12'))).toBe('1 2');
});

test('a long stream takes time in proportion to its length', () => {
  const tokenizer = open('llama2', 'gguf');
  const ids = Array.from({ length: 200_000 }, (_, i) => i % 900);
  const start = process.cpuUsage();
  const stream = tokenizer.stream();
  let size = 0;
  for (const id of ids) size += stream.push(id).length;
  size += stream.end().length;
  expect(size).toBeGreaterThan(100_000);
  // Re-decoding the row at each token would take hours.
  expect(cpuSeconds(start)).toBeLessThan(10);
});
