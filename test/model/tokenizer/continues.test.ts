import { describe, expect, test } from '@jest/globals';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import { fixture, jsonSource, open, strings } from './fixtures.js';

const bare = (tokenizer: Tokenizer, text: string): number[] => tokenizer.encode(text, { specialTokens: false });
const behind = (tokenizer: Tokenizer, text: string): number[] =>
  tokenizer.encode(text, { specialTokens: false, continues: true });

/** Those that put a blank before a text. */
const PREFIXED: readonly (readonly [string, 'tokenizer.json' | 'gguf'])[] = [
  ['llama2', 'tokenizer.json'],
  ['llama2', 'gguf'],
  ['mistral', 'tokenizer.json'],
  ['unigram', 'tokenizer.json'],
];

describe.each(PREFIXED)('behind another text, %s of %s', (name, format) => {
  const tokenizer = open(name, format);

  test('a blank that is written is the one that the reference puts before a text; without one there is none', () => {
    expect(behind(tokenizer, ' the')).toEqual(bare(tokenizer, 'the'));
    expect(behind(tokenizer, 'the')).not.toEqual(behind(tokenizer, ' the'));
    expect(tokenizer.decode([...bare(tokenizer, 'In'), ...behind(tokenizer, 'the')])).toBe('Inthe');
    expect(tokenizer.decode([...bare(tokenizer, 'In'), ...behind(tokenizer, ' the')])).toBe('In the');
    expect(tokenizer.decode([...bare(tokenizer, 'In'), ...behind(tokenizer, '.')])).toBe('In.');
    // The ids of transformers, which know only texts from their beginning on.
    const { bare: expected } = fixture(name).reference;
    strings.forEach((text, at) => {
      if (text !== '' && !/^[ ▁<\[]/.test(text))
        expect({ text, ids: behind(tokenizer, ` ${text}`) }).toEqual({
          text,
          ids: format === 'gguf' ? bare(tokenizer, text) : expected[at],
        });
    });
  });

  test('a word is what it is within a text', () => {
    const context = bare(tokenizer, 'In');
    for (const text of [' the', ' the end.', ' a b  c'])
      expect([...context, ...behind(tokenizer, text)]).toEqual(bare(tokenizer, `In${text}`));
  });
});

test.each([
  ['smollm', 'tokenizer.json'],
  ['smollm', 'gguf'],
  ['llama3', 'tokenizer.json'],
  ['qwen2', 'gguf'],
  ['tekken', 'tokenizer.json'],
  ['gpt-neox', 'tokenizer.json'],
  ['opt', 'tokenizer.json'],
  ['falcon', 'tokenizer.json'],
  ['gemma', 'tokenizer.json'],
  ['gemma', 'gguf'],
] as const)('%s of %s puts nothing before a text anyway', (name, format) => {
  const tokenizer = open(name, format);
  for (const text of strings) expect(behind(tokenizer, text)).toEqual(bare(tokenizer, text));
});

describe('of words and signs', () => {
  const vocab = ['the', '▁the', '.', '▁.', 'Ġ', 'Ġthe', 'x', '▁x', '<unk>', '<s>'];
  const of = (preTokenizer: unknown, normalizer: unknown = null): Tokenizer =>
    createTokenizer(
      jsonSource({
        normalizer,
        pre_tokenizer: preTokenizer,
        decoder: { type: 'Fuse' },
        added_tokens: [
          { id: 9, content: '<s>', special: true, normalized: false, single_word: false, lstrip: false, rstrip: false },
        ],
        model: {
          type: 'WordLevel',
          vocab: Object.fromEntries(vocab.map((token, id) => [token, id])),
          unk_token: '<unk>',
        },
      }),
      vocab.length,
    );
  const words = (tokenizer: Tokenizer, text: string): (string | undefined)[] =>
    behind(tokenizer, text).map((id) => vocab[id]);
  const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };

  test('Metaspace, ByteLevel, Prepend and Strip leave the beginning as it is', () => {
    expect(words(of(metaspace), 'the')).toEqual(['the']);
    expect(words(of(metaspace), ' the')).toEqual(['▁the']);
    const bytes = of({ type: 'ByteLevel', add_prefix_space: true, use_regex: true });
    expect(bare(bytes, 'the').map((id) => vocab[id])).toEqual(['Ġthe']);
    expect(words(bytes, 'the')).toEqual(['the']);
    expect(words(bytes, ' the')).toEqual(['Ġthe']);
    const strips = { type: 'Sequence', normalizers: [{ type: 'Strip', strip_left: true, strip_right: true }] };
    expect(words(of(metaspace, strips), ' the ')).toEqual(['▁the']);
    expect(words(of(metaspace, strips), 'the ')).toEqual(['the']);
  });

  test('where blanks are left out, a gap before the first word marks it; only that goes on from the other text', () => {
    const both = of({ type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, metaspace] });
    expect(words(both, 'the x')).toEqual(['the', '▁x']);
    expect(words(both, ' the x')).toEqual(['▁the', '▁x']);
  });

  test('a text behind a special token begins as any other', () => {
    const prepends = of(null, { type: 'Prepend', prepend: '▁' });
    expect(words(prepends, 'x<s>the')).toEqual(['x', '<s>', '▁the']);
    expect(words(of(metaspace), '<s>the')).toEqual(['<s>', '▁the']);
  });
});
