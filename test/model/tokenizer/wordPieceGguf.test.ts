import { expect, test } from '@jest/globals';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { fixture, open, strings } from './fixtures.js';

/** The tokens of tokenizer.json as llama.cpp's converter writes them. */
function converted(name: string): { readonly metadata: ReadonlyMap<string, unknown>; readonly size: number } {
  const { model } = fixture(name).tokenizer as unknown as { model: { vocab: Record<string, number> } };
  const tokens = Object.entries(model.vocab)
    .sort(([, a], [, b]) => a - b)
    .map(([token]) => (/^\[.+\]$/.test(token) ? token : token.startsWith('##') ? token.slice(2) : `\u2581${token}`));
  const metadata = new Map<string, unknown>([
    ['tokenizer.ggml.model', 'bert'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', Int32Array.from(tokens, (token) => (/^\[.+\]$/.test(token) ? 3 : 1))],
    ['tokenizer.ggml.unknown_token_id', tokens.indexOf('[UNK]')],
    ['tokenizer.ggml.cls_token_id', tokens.indexOf('[CLS]')],
    ['tokenizer.ggml.seperator_token_id', tokens.indexOf('[SEP]')],
  ]);
  return { metadata, size: tokens.length };
}

test('WordPiece of GGUF: ids, pairs and texts are those of tokenizer.json', () => {
  const { reference } = fixture('wordpiece');
  const { metadata, size } = converted('wordpiece');
  const tokenizer = createTokenizer({ kind: 'gguf', metadata }, size);
  const [begin, end] = reference.surroundings;
  // Of a vocabulary with that character itself a converted token does not say what it was.
  const isPlain = (text: string): boolean => !text.includes('\u2581');
  strings.forEach((text, i) => {
    if (isPlain(text)) expect(tokenizer.encode(text)).toEqual([begin, ...(reference.bare[i] ?? []), end]);
  });
  expect(tokenizer.joinPair?.([7, 8], [9])).toEqual({ tokens: [begin, 7, 8, end, 9, end], secondText: 4 });
  expect(open('wordpiece').joinPair?.([7, 8], [9])).toEqual(tokenizer.joinPair?.([7, 8], [9]));
  for (const [ids, text, whole] of reference.texts) if (isPlain(whole)) expect(tokenizer.decode(ids)).toBe(text);
});

test('a file that does not say what begins a text is refused', () => {
  const { metadata, size } = converted('wordpiece');
  const without = new Map(metadata);
  without.delete('tokenizer.ggml.cls_token_id');
  without.set(
    'tokenizer.ggml.tokens',
    (metadata.get('tokenizer.ggml.tokens') as string[]).map((token) => (token === '[CLS]' ? '[BEGIN]' : token)),
  );
  expect(() => createTokenizer({ kind: 'gguf', metadata: without }, size)).toThrow(
    'tokenizer.ggml.cls_token_id: found nothing, expected the id of [CLS]',
  );
});
