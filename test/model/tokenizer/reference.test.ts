import { describe, expect, test } from '@jest/globals';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { fixture, ggufSource, open, strings, type Reference } from './fixtures.js';

/** The first string for which the ids differ, for a readable failure. */
function firstDifference(encode: (text: string) => number[], expected: readonly number[][]): unknown {
  for (const [i, ids] of expected.entries()) {
    const text = strings[i] ?? '';
    const found = encode(text);
    if (JSON.stringify(found) !== JSON.stringify(ids))
      return { i, text: JSON.stringify(text.slice(0, 80)), found: found.slice(0, 40), expected: ids.slice(0, 40) };
  }
  return undefined;
}

function asData({ bare, data }: Reference): number[][] {
  return bare.map((ids, i) => data[String(i)] ?? ids);
}

function expectDecodes(tokenizer: Tokenizer, texts: Reference['texts']): void {
  for (const [ids, text, whole] of texts) {
    expect({ ids, text: tokenizer.decode(ids) }).toEqual({ ids, text });
    expect({ ids, text: tokenizer.decode(ids, { skipSpecial: false }) }).toEqual({ ids, text: whole });
    const stream = tokenizer.stream();
    expect(ids.map((id) => stream.push(id)).join('') + stream.end()).toBe(text);
  }
}

const JSON_FAMILIES = [
  'smollm',
  'llama3',
  'qwen2',
  'tekken',
  'o200k',
  'gpt-neox',
  'opt',
  'falcon',
  'added-tokens',
  'unigram',
  'xlm-roberta',
  'deberta-v3',
  'deberta-v2',
  'albert',
  'wordpiece',
  'wordpiece-cased',
  'llama2',
  'mistral',
  'gemma',
];

test('the fixtures hold at least 300 strings', () => {
  expect(strings.length).toBeGreaterThanOrEqual(300);
});

describe.each(JSON_FAMILIES)('tokenizer.json in the manner of %s', (name) => {
  const { reference: expected } = fixture(name);
  const tokenizer = open(name);

  test('ids equal the reference', () => {
    expect(firstDifference((text) => tokenizer.encode(text, { specialTokens: false }), expected.bare)).toBeUndefined();
  });

  test('ids equal the reference with control text as data', () => {
    expect(
      firstDifference(
        (text) => tokenizer.encode(text, { specialTokens: false, parseSpecial: false }),
        asData(expected),
      ),
    ).toBeUndefined();
  });

  test('the surroundings of a prompt equal the reference', () => {
    expect(tokenizer.encode('')).toEqual(expected.surroundings);
    const [begin] = expected.surroundings;
    expect(tokenizer.beginToken).toBe(begin);
    const ids = tokenizer.encode('Hello');
    expect(ids).toHaveLength(expected.surroundings.length + tokenizer.encode('Hello', { specialTokens: false }).length);
    expect(ids[0]).toBe(begin ?? ids[0]);
  });

  test('texts equal the reference', () => {
    expectDecodes(tokenizer, expected.texts);
  });
});

describe.each(['smollm', 'llama3', 'qwen2', 'tekken', 'o200k', 'falcon'])(
  'byte-level GGUF metadata in the manner of %s',
  (name) => {
    const { reference: expected } = fixture(name);
    const tokenizer = open(name, 'gguf');

    test('ids equal the reference', () => {
      expect(
        firstDifference((text) => tokenizer.encode(text, { specialTokens: false }), expected.bare),
      ).toBeUndefined();
      expect(
        firstDifference(
          (text) => tokenizer.encode(text, { specialTokens: false, parseSpecial: false }),
          asData(expected),
        ),
      ).toBeUndefined();
    });

    test('texts equal the reference', () => {
      expectDecodes(tokenizer, expected.texts);
    });
  },
);

test("GGUF's metadata of Gemma 4: blanks, bytes and merges, as tokenizer.json has them", () => {
  const { tokenizer: source, reference: expected } = fixture('gemma');
  const { vocab, merges } = source.model as { vocab: Record<string, number>; merges: readonly (readonly string[])[] };
  const added = new Map(source.added_tokens.map((token) => [token['id'], token]));
  const tokens = Object.entries(vocab).sort(([, a], [, b]) => a - b);
  const typeOf = (text: string, id: number): number => {
    const token = added.get(id);
    if (token !== undefined) return token['special'] === true ? 3 : 4;
    return /^<0x[0-9A-F]{2}>$/.test(text) ? 6 : 1;
  };
  const tokenizer = createTokenizer(
    ggufSource({
      'tokenizer.ggml.model': 'gemma4',
      'tokenizer.ggml.tokens': tokens.map(([text]) => text),
      'tokenizer.ggml.token_type': tokens.map(([text, id]) => typeOf(text, id)),
      'tokenizer.ggml.merges': merges.map((pair) => pair.join(' ')),
      'tokenizer.ggml.bos_token_id': 1,
      'tokenizer.ggml.eos_token_id': 2,
      'tokenizer.ggml.unknown_token_id': 0,
      'tokenizer.ggml.add_bos_token': true,
    }),
    100_000,
  );
  expect(tokens.map(([, id]) => id)).toEqual(tokens.map((_, at) => at));
  expect(firstDifference((text) => tokenizer.encode(text, { specialTokens: false }), expected.bare)).toBeUndefined();
  expectDecodes(tokenizer, expected.texts);
  expect(tokenizer.encode('')).toEqual([1]);
});

describe.each(['llama2', 'gemma', 'xlm-roberta'])('SentencePiece GGUF metadata in the manner of %s', (name) => {
  const { reference: expected, tokenizer: source } = fixture(name);
  const map = (source.normalizer as { precompiled_charsmap?: string } | null)?.precompiled_charsmap;
  const tokenizer = open(name, 'gguf', {
    ...(map !== undefined && { 'tokenizer.ggml.precompiled_charsmap': Int8Array.from(Buffer.from(map, 'base64')) }),
  });

  test("ids of data equal SentencePiece's", () => {
    const ids = (text: string): number[] => tokenizer.encode(text, { specialTokens: false, parseSpecial: false });
    // Where blanks are merged SentencePiece counts its own sign for one among them; llama.cpp, and so we, do not.
    const isPlain = (text: string): boolean => map === undefined || !text.includes('\u2581');
    expect(
      firstDifference(
        ids,
        (expected.gguf ?? []).map((known, i) => (isPlain(strings[i] ?? '') ? known : ids(strings[i] ?? ''))),
      ),
    ).toBeUndefined();
  });

  test("texts equal tokenizer.json's", () => {
    expectDecodes(tokenizer, expected.texts);
  });
});
