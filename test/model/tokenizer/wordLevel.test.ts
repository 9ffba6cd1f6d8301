import { describe, expect, test } from '@jest/globals';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import type { TokenizerSource } from '../../../src/model/ModelSource.js';

/** The ids and texts are those of tokenizers 0.23 for the same file. */
function open(model: Record<string, unknown>): ReturnType<typeof createTokenizer> {
  const source: TokenizerSource = {
    kind: 'tokenizer.json',
    file: 'tokenizer.json',
    tokenizer: {
      added_tokens: [{ id: 0, content: '<s>', special: true }],
      pre_tokenizer: { type: 'Whitespace' },
      model: { type: 'WordLevel', vocab: { '<s>': 0, '<unk>': 1, the: 2, whale: 3, ',': 4 }, ...model },
    },
    config: {},
    endTokens: [],
  };
  return createTokenizer(source, 6);
}

describe('a word-level model', () => {
  test('gives each piece its token, or the unknown one', () => {
    const tokenizer = open({ unk_token: '<unk>' });
    expect(tokenizer.encode('<s>the whale, The\nwhale')).toEqual([0, 2, 3, 4, 1, 3]);
    expect(tokenizer.decode([0, 2, 3, 4, 1])).toBe('the whale , <unk>');
  });

  test('keeps joiners in words, and cuts at blanks and signs of any script', () => {
    const tokenizer = open({
      unk_token: '<unk>',
      vocab: { '<s>': 0, '<unk>': 1, 'می\u200cخواهم': 2, Größe: 3, '\u200d': 4, '👩': 5 },
    });
    expect(tokenizer.encode('می\u200cخواهم\u00a0Größe\u0085👩\u200d👩')).toEqual([2, 3, 5, 4, 5]);
  });

  test('drops what it does not know where it has no unknown token', () => {
    expect(open({ unk_token: null }).encode('the ship whale')).toEqual([2, 3]);
  });
});
