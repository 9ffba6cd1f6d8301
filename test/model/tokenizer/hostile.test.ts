import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { RowError } from '../../../src/errors/RowError.js';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import type { TokenizerSource } from '../../../src/model/ModelSource.js';
import { fixture, ggufSource, jsonSource, open } from './fixtures.js';
import { cpuSeconds } from '../support/expectBounded.js';
import { tries } from '../../support/tries.js';
import { anyCharacter } from '../../support/anyCharacter.js';

type Json = Record<string, unknown>;

function refusal(source: TokenizerSource, size = 2000): ModelFileError {
  try {
    createTokenizer(source, size);
  } catch (error) {
    expect(error).toBeInstanceOf(ModelFileError);
    return error as ModelFileError;
  }
  throw new Error('expected a refusal');
}

/** A BPE small enough to read: `abc` comes of `ab`, `c`. */
const SMALL = {
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: { type: 'Fuse' },
  added_tokens: [] as unknown[],
  model: { type: 'BPE', vocab: { a: 0, b: 1, c: 2, ab: 3, abc: 4 } as Json, merges: ['a b', ['ab', 'c']] as unknown[] },
};
const withModel = (changes: Json): Json => ({ ...SMALL, model: { ...SMALL.model, ...changes } });

const GGUF = {
  'tokenizer.ggml.model': 'gpt2',
  'tokenizer.ggml.pre': 'gpt-2',
  'tokenizer.ggml.tokens': ['a', 'b', 'ab', '<s>'],
  'tokenizer.ggml.token_type': Int32Array.from([1, 1, 1, 3]),
  'tokenizer.ggml.merges': ['a b'],
  'tokenizer.ggml.eos_token_id': 3,
};
const SPM = { ...GGUF, 'tokenizer.ggml.model': 'llama', 'tokenizer.ggml.scores': Float32Array.from([0, 0, 1, 0]) };

test('the small ones themselves are fine', () => {
  expect(createTokenizer(jsonSource(SMALL), 5).encode('abcabz')).toEqual([4, 3]);
  expect(createTokenizer(ggufSource(GGUF), 4).encode('ab<s>b')).toEqual([2, 3, 1]);
  expect(createTokenizer(ggufSource({ ...SPM, 'tokenizer.ggml.add_space_prefix': false }), 4).encode('ab<s>b')).toEqual(
    [2, 3, 1],
  );
});

describe('tokenizer.json', () => {
  test.each<[string, unknown, string]>([
    ['null', null, 'found null, expected an object'],
    ['a list', [], 'expected an object'],
    ['no model', { ...SMALL, model: undefined }, 'model: found nothing, expected an object'],
    ['unknown model', withModel({ type: 'Wordy' }), 'found "Wordy", expected BPE, Unigram, WordPiece or WordLevel'],
    ['no vocabulary', withModel({ vocab: undefined }), 'model.vocab: found nothing'],
    ['empty vocabulary', withModel({ vocab: {}, merges: [] }), 'model.vocab: found no tokens'],
    ['vocabulary of text', withModel({ vocab: { a: 'x' } }), 'model.vocab["a"]: found "x", expected a token id'],
    ['negative id', withModel({ vocab: { a: -1 } }), 'found -1, expected a token id'],
    ['huge id', withModel({ vocab: { a: 1e15 } }), 'found 1000000000000000, expected a token id'],
    ['fraction', withModel({ vocab: { a: 0.5 } }), 'found 0.5'],
    ['one id twice', withModel({ vocab: { a: 0, b: 0, c: 2, ab: 3, abc: 4 } }), 'id 0 for both "a" and "b"'],
    ['no merges', withModel({ merges: undefined }), 'model.merges: found nothing, expected a list'],
    ['merge of a number', withModel({ merges: [7] }), 'model.merges[0]: found 7'],
    ['merge of one', withModel({ merges: ['ab'] }), 'model.merges[0]: found "ab"'],
    ['merge of three', withModel({ merges: ['a b c'] }), 'model.merges[0]'],
    ['merge of nothing', withModel({ merges: [['a', '']] }), 'model.merges[0]'],
    ['merge out of the vocabulary', withModel({ merges: ['a z'] }), '"z", which is no token'],
    ['merge to nothing known', withModel({ merges: ['b a'] }), '"ba", which is no token'],
    [
      'unknown pre-tokenizer',
      { ...SMALL, pre_tokenizer: { type: 'Magic' } },
      'pre_tokenizer.type: found "Magic", expected one of',
    ],
    [
      'broken regex',
      { ...SMALL, pre_tokenizer: { type: 'Split', pattern: { Regex: '(' }, behavior: 'Isolated' } },
      'pre_tokenizer.pattern: found "("',
    ],
    [
      'huge regex',
      { ...SMALL, pre_tokenizer: { type: 'Split', pattern: { Regex: 'a'.repeat(100_000) }, behavior: 'Isolated' } },
      'found 100000 UTF-16 units, expected at most 10000',
    ],
    [
      'empty pattern',
      { ...SMALL, pre_tokenizer: { type: 'Split', pattern: { String: '' }, behavior: 'Isolated' } },
      'an empty string',
    ],
    [
      'no pattern',
      { ...SMALL, pre_tokenizer: { type: 'Split', pattern: {}, behavior: 'Isolated' } },
      'a text under String or Regex',
    ],
    [
      'unknown behaviour',
      { ...SMALL, pre_tokenizer: { type: 'Split', pattern: { String: 'a' }, behavior: 'Eaten' } },
      'found "Eaten", expected one of Removed',
    ],
    ['unknown normalizer', { ...SMALL, normalizer: { type: 'Magic' } }, 'normalizer.type: found "Magic"'],
    [
      'long replacement',
      { ...SMALL, normalizer: { type: 'Replace', pattern: { String: 'a' }, content: 'a'.repeat(1e6) } },
      'normalizer.content',
    ],
    [
      'many normalizers',
      {
        ...SMALL,
        normalizer: { type: 'Sequence', normalizers: Array.from({ length: 1000 }, () => ({ type: 'NFC' })) },
      },
      'at most 64',
    ],
    ['unknown decoder', { ...SMALL, decoder: { type: 'CTC' } }, 'decoder.type: found "CTC"'],
    ['endless strip', { ...SMALL, decoder: { type: 'Strip', content: ' ', start: 1e12, stop: 0 } }, 'decoder.start'],
    ['unknown post-processor', { ...SMALL, post_processor: { type: 'Magic' } }, 'post_processor.type'],
    [
      'template without its token',
      {
        ...SMALL,
        post_processor: { type: 'TemplateProcessing', single: [{ SpecialToken: { id: 'x' } }], special_tokens: {} },
      },
      'special_tokens["x"]',
    ],
    [
      'template without text',
      { ...SMALL, post_processor: { type: 'TemplateProcessing', single: [], special_tokens: {} } },
      'no sequence A',
    ],
    [
      'begin token out of range',
      { ...SMALL, post_processor: { type: 'RobertaProcessing', cls: ['<s>', 3000], sep: ['</s>', 1] } },
      'id 3000, expected an id below 2000',
    ],
    ['added token without text', { ...SMALL, added_tokens: [{ id: 9 }] }, 'added_tokens[0].content: found nothing'],
    ['added token out of range', { ...SMALL, added_tokens: [{ id: 2 ** 40, content: 'x' }] }, 'added_tokens[0].id'],
    [
      'added tokens with one id',
      {
        ...SMALL,
        added_tokens: [
          { id: 9, content: 'x' },
          { id: 9, content: 'y' },
        ],
      },
      'id 9 for both "x" and "y"',
    ],
    ['broken unigram', withModel({ type: 'Unigram', vocab: [['a', 'b']] }), 'model.vocab[0]'],
    [
      'unigram with an unknown token out of range',
      withModel({ type: 'Unigram', vocab: [['a', 0]], unk_id: 7 }),
      'model.unk_id',
    ],
  ])('%s is refused', (_, tokenizer, message) => {
    const error = refusal(jsonSource(tokenizer));
    expect(error.message).toContain(message);
    expect(error.file).toBe('tokenizer.json');
  });

  test('deep nesting is refused', () => {
    let nested: unknown = { type: 'NFC' };
    for (let i = 0; i < 5000; i++) nested = { type: 'Sequence', normalizers: [nested] };
    refusal(jsonSource({ ...SMALL, normalizer: nested }));
  });

  test('end tokens that the model lacks are left out', () => {
    expect([
      ...createTokenizer({ ...jsonSource(SMALL), endTokens: [5000, 1] } as TokenizerSource, 300).endTokens,
    ]).toEqual([1]);
    expect(refusal({ ...jsonSource(SMALL), endTokens: [-1] } as TokenizerSource).message).toContain(
      'eos_token_id: found -1',
    );
  });

  test('a vocabulary with gaps, more or fewer tokens than the model has rows is fine', () => {
    const gaps = createTokenizer(jsonSource(withModel({ vocab: { a: 0, b: 1, ab: 700 }, merges: ['a b'] })), 10);
    expect(gaps.encode('ab')).toEqual([700]);
    expect(gaps.decode([5, 0, 700])).toBe('aab');
    expect(gaps.vocabularySize).toBe(10);
  });

  test('tokens named like members of objects are tokens', () => {
    const vocab = JSON.parse('{"a":0,"__proto__":1,"constructor":2,"b":3}') as Json;
    const tokenizer = createTokenizer(
      jsonSource({ ...withModel({ vocab, merges: [] }), added_tokens: [{ id: 1, content: '__proto__' }] }),
      10,
    );
    expect(tokenizer.encode('a__proto__b')).toEqual([0, 1, 3]);
    expect(tokenizer.decode([1, 2])).toBe('__proto__constructor');
  });

  test('merges that repeat one another are harmless', () => {
    const tokenizer = createTokenizer(jsonSource(withModel({ merges: ['a b', 'a b', 'ab c', 'a b'] })), 10);
    expect(tokenizer.encode('abcab')).toEqual([4, 3]);
  });
});

describe('GGUF metadata', () => {
  test.each<[string, Json, string]>([
    ['nothing', {}, 'tokenizer.ggml.tokens: found nothing, expected a list'],
    [
      'unknown model',
      { ...GGUF, 'tokenizer.ggml.model': 'rwkv' },
      'found "rwkv", expected gpt2, llama, bert, t5 or gemma4',
    ],
    [
      'unknown pre-tokenizer',
      { ...GGUF, 'tokenizer.ggml.pre': 'magic' },
      'found "magic", expected one of default, gpt-2',
    ],
    ['tokens that are numbers', { ...GGUF, 'tokenizer.ggml.tokens': [1] }, 'tokenizer.ggml.tokens[0]: found 1'],
    ['no tokens', { ...GGUF, 'tokenizer.ggml.tokens': [] }, '0 tokens'],
    ['too few types', { ...GGUF, 'tokenizer.ggml.token_type': [1] }, '1 types, expected 4'],
    ['types of text', { ...GGUF, 'tokenizer.ggml.token_type': ['a', 'b', 'c', 'd'] }, 'token_type[0]: found "a"'],
    ['no merges', { ...GGUF, 'tokenizer.ggml.merges': undefined }, 'tokenizer.ggml.merges: found nothing'],
    ['merge out of the vocabulary', { ...GGUF, 'tokenizer.ggml.merges': ['a z'] }, '"z", which is no token'],
    [
      'end token out of range',
      { ...GGUF, 'tokenizer.ggml.eos_token_id': 4 },
      'eos_token_id: found 4, expected an id below 4',
    ],
    ['end token of text', { ...GGUF, 'tokenizer.ggml.eos_token_id': 'x' }, 'eos_token_id: found "x"'],
    ['flag of text', { ...GGUF, 'tokenizer.ggml.add_bos_token': 'yes' }, 'add_bos_token: found "yes"'],
    ['template of numbers', { ...GGUF, 'tokenizer.chat_template': 7 }, 'chat_template: found 7'],
    ['no scores', { ...SPM, 'tokenizer.ggml.scores': undefined }, 'tokenizer.ggml.scores: found nothing'],
    ['too few scores', { ...SPM, 'tokenizer.ggml.scores': [0] }, '1 scores, expected 4'],
    [
      'scores that are no numbers',
      { ...SPM, 'tokenizer.ggml.scores': Float32Array.from([NaN, 0, 0, 0]) },
      'scores[0]: found NaN',
    ],
    ['scores in 64-bit integers', { ...SPM, 'tokenizer.ggml.scores': new BigInt64Array(4) }, 'tokenizer.ggml.scores'],
  ])('%s is refused', (_, metadata, message) => {
    expect(refusal(ggufSource(metadata)).message).toContain(message);
  });

  test('a begin token is added where the file says so, and by default for SentencePiece', () => {
    const begin = { 'tokenizer.ggml.bos_token_id': 3 };
    expect(createTokenizer(ggufSource({ ...GGUF, ...begin }), 4).encode('a')).toEqual([0]);
    expect(
      createTokenizer(
        ggufSource({ ...GGUF, ...begin, 'tokenizer.ggml.add_bos_token': true, 'tokenizer.ggml.add_eos_token': true }),
        4,
      ).encode('a'),
    ).toEqual([3, 0, 3]);
    expect(createTokenizer(ggufSource({ ...SPM, ...begin }), 4).beginToken).toBe(3);
    expect(
      createTokenizer(ggufSource({ ...SPM, ...begin, 'tokenizer.ggml.add_bos_token': false }), 4).beginToken,
    ).toBeUndefined();
  });

  test('all ids that end a row are end tokens', () => {
    const tokens = ['a', 'b', 'ab', '<s>', '<|eot_id|>', '<e>', '<m>'];
    const more = { ...GGUF, 'tokenizer.ggml.tokens': tokens, 'tokenizer.ggml.token_type': [1, 1, 1, 3, 3, 3, 3] };
    expect([
      ...createTokenizer(ggufSource({ ...more, 'tokenizer.ggml.eot_token_id': 5, 'tokenizer.ggml.eom_token_id': 6 }), 9)
        .endTokens,
    ]).toEqual([3, 5, 6, 4]);
    expect([...createTokenizer(ggufSource(more), 9).endTokens]).toEqual([3, 4]);
  });

  test('where messages have channels the end of one is not that of the answer', () => {
    const types = [1, 1, 1, 3, 3, 3, 3];
    const ends = (...last: readonly string[]): number[] => {
      const tokens = ['a', 'b', 'ab', '<|return|>', ...last];
      const more = { ...GGUF, 'tokenizer.ggml.tokens': tokens, 'tokenizer.ggml.token_type': types };
      return [...createTokenizer(ggufSource(more), 9).endTokens].toSorted((a, b) => a - b);
    };
    expect(ends('<|end|>', '<|call|>', 'e')).toEqual([3, 5]);
    expect(ends('<|end|>', 'c', 'e')).toEqual([3, 4]);
  });
});

/** Replaces one member somewhere inside a value. */
function mutate(value: unknown, path: readonly number[], replacement: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined || typeof value !== 'object' || value === null) return replacement;
  if (Array.isArray(value)) {
    if (value.length === 0) return replacement;
    const copy = [...(value as unknown[])];
    copy[step % copy.length] = mutate(copy[step % copy.length], rest, replacement);
    return copy;
  }
  const keys = Object.keys(value);
  const key = keys[step % keys.length];
  return key === undefined ? replacement : { ...value, [key]: mutate((value as Json)[key], rest, replacement) };
}

const junk = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    undefined,
    true,
    '',
    'a',
    '(',
    '(a+)+$',
    '▁',
    -1,
    0,
    1,
    0.5,
    1e9,
    2 ** 53,
    NaN,
    [],
    {},
    [[]],
    [null],
    { type: 'Sequence' },
    { type: 'Split' },
    { Regex: '[a-z' },
    { Regex: '(?<=a)*' },
    { Regex: '\\p{Nope}' },
    7n,
  ),
  fc.jsonValue(),
);

describe('mutated files give a ModelFileError or a tokenizer that works', () => {
  const attempt = (source: TokenizerSource): void => {
    let tokenizer;
    try {
      tokenizer = createTokenizer(source, 2000);
    } catch (error) {
      expect(error).toBeInstanceOf(ModelFileError);
      return;
    }
    try {
      const ids = tokenizer.encode("Hello <|im_end|> it's 12 \ud800 x");
      expect(ids.every((id) => Number.isInteger(id) && id >= 0)).toBe(true);
      expect(typeof tokenizer.decode(ids)).toBe('string');
      if (tokenizer.hasChatTemplate)
        expect(typeof tokenizer.renderChat([{ role: 'user', content: 'a' }])).toBe('string');
    } catch (error) {
      if (!(error instanceof RowError)) expect(error).toBeInstanceOf(ModelFileError);
    }
  };
  const path = fc.array(fc.nat(3000), { minLength: 1, maxLength: 6 });

  test.each(['smollm', 'llama2', 'gemma', 'unigram', 'added-tokens'])('tokenizer.json of %s', (name) => {
    const { tokenizer, config } = fixture(name);
    fc.assert(
      fc.property(path, junk, (at, value) => attempt(jsonSource(mutate(tokenizer, at, value), config))),
      { numRuns: tries(150, 500) },
    );
    fc.assert(
      fc.property(path, junk, (at, value) =>
        attempt(jsonSource(SMALL, mutate({ ...config, add_bos_token: true, chat_template: 'a' }, at, value))),
      ),
      { numRuns: tries(60, 200) },
    );
  });

  test.each(['smollm', 'llama2', 'gemma'])('GGUF metadata of %s', (name) => {
    const { gguf } = fixture(name);
    fc.assert(
      fc.property(path, junk, (at, value) =>
        attempt(ggufSource(mutate({ ...gguf, 'tokenizer.chat_template': 'a' }, at, value) as Json)),
      ),
      { numRuns: tries(150, 500) },
    );
  });
});

describe('rows', () => {
  test('any text is encoded, and comes back where the tokenizer loses nothing', () => {
    for (const name of ['smollm', 'llama3', 'falcon', 'opt']) {
      const tokenizer = open(name);
      fc.assert(
        fc.property(fc.string({ unit: anyCharacter, maxLength: 50 }), fc.boolean(), (text, parseSpecial) => {
          expect(
            tokenizer.decode(tokenizer.encode(text, { specialTokens: false, parseSpecial }), { skipSpecial: false }),
          ).toBe(text);
        }),
      );
    }
  });

  test('half surrogate pairs are U+FFFD in every kind of tokenizer', () => {
    const unit = fc.constantFrom('\ud800', '\udfff', 'a', ' ', '😀', '<|im_end|>');
    for (const name of ['smollm', 'qwen2', 'llama2', 'unigram', 'gemma', 'mistral']) {
      const tokenizer = open(name);
      fc.assert(
        fc.property(fc.array(unit), (parts) => {
          const text = parts.join('');
          expect(tokenizer.encode(text)).toEqual(tokenizer.encode(text.replace(/\p{Cs}/gu, '\ufffd')));
        }),
      );
    }
  });

  const rows: [string, string][] = [
    [
      'letters',
      Array.from({ length: 100_000 }, (_, i) => String.fromCharCode(97 + ((i * i * 31 + i * 7) % 26))).join(''),
    ],
    ['one letter', 'a'.repeat(100_000)],
    ['blanks', `${' '.repeat(100_000)}x`],
    ['line ends', ' \n'.repeat(50_000)],
    ['beginnings of a control token', '<|im_en'.repeat(15_000)],
    ['characters out of the vocabulary', '\u{1f9ff}'.repeat(50_000)],
    ['combining marks', '\u0301'.repeat(100_000)],
    ['metaspaces', '▁'.repeat(100_000)],
  ];
  const FAMILIES = [
    'smollm',
    'llama3',
    'qwen2',
    'tekken',
    'falcon',
    'gpt-neox',
    'unigram',
    'llama2',
    'gemma',
    'added-tokens',
  ];

  test.each(FAMILIES)('100,000 characters without mercy take no quadratic time in the manner of %s', (name) => {
    for (const format of ['llama2', 'gemma'].includes(name)
      ? (['tokenizer.json', 'gguf'] as const)
      : (['tokenizer.json'] as const)) {
      const tokenizer = open(name, format);
      for (const [what, text] of rows) {
        const start = process.cpuUsage();
        const ids = tokenizer.encode(text);
        // Measured at under 0.3 s; a quadratic loop takes minutes.
        expect({ what, slow: cpuSeconds(start) > 5 }).toEqual({ what, slow: false });
        expect(ids.length).toBeGreaterThan(0);
      }
    }
  });

  const split = (Regex: string): ReturnType<typeof createTokenizer> =>
    createTokenizer(
      jsonSource({ ...SMALL, pre_tokenizer: { type: 'Split', pattern: { Regex }, behavior: 'Isolated' } }),
      10,
    );

  test('a regular expression on which V8 would go back without end is matched in steps', () => {
    expect(split('(a+)+$').encode('ab')).toEqual([3]);
    expect(split('(a+)+$').encode(`${'a'.repeat(60)}b`).length).toBeGreaterThan(0);
    expect(split('(a*)*b|[a-z]').encode('a'.repeat(2000)).length).toBeGreaterThan(0);
  });

  test('what a row comes to does not depend on its company', () => {
    const tokenizer = split(String.raw`(a*a*)*\1b`);
    const hostile = 'a'.repeat(3000);
    const error = (): string => {
      try {
        return String(tokenizer.encode(hostile).length);
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(RowError);
        return (thrown as Error).message;
      }
    };
    const alone = tokenizer.encode('ab');
    const first = error();
    expect(first).toMatch(
      /^tokenizer.json: pre_tokenizer.pattern: found work on one text that did not come to an end within 18313216 steps/,
    );
    expect([error(), error(), error()]).toEqual([first, first, first]);
    expect(tokenizer.encode('ab')).toEqual(alone);
    expect(error()).toBe(first);
  });

  test('a row that needs most of its steps has all of them amid rows, and after rows, that run out of theirs', () => {
    const tokenizer = split(String.raw`(a*a*)*\1b`);
    // 79 in 100 of the steps that a row of 60,000 units has.
    const honest = 'aaaac'.repeat(12_000);
    const hostile = 'a'.repeat(3000);
    const inParts = function* (text: string): Generator<unknown, number[] | string> {
      try {
        const made = tokenizer.encodeInParts(text);
        return 'next' in made ? yield* made : made;
      } catch (error) {
        expect(error).toBeInstanceOf(RowError);
        return (error as RowError).rowCode;
      }
    };
    const works = [hostile, hostile, honest, hostile].map(inParts);
    const ends = new Map<number, number[] | string>();
    while (ends.size < works.length)
      works.forEach((work, at) => {
        const step = ends.has(at) ? undefined : work.next();
        if (step?.done === true) ends.set(at, step.value);
      });
    // It goes on long after the others have ended.
    const tokens = Array.from({ length: 60_000 }, (_, at) => (at % 5 === 4 ? 2 : 0));
    expect([0, 1, 2, 3].map((at) => ends.get(at))).toEqual(['limit', 'limit', tokens, 'limit']);
  });

  test('digits in threes from the right, as some real tokenizers have them, on 100,000 digits', () => {
    const tokenizer = split(String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`);
    // No token of the vocabulary has a digit: what counts is that it comes to its end.
    expect(tokenizer.encode('7'.repeat(100_000))).toEqual([]);
  });

  test('normalizers that grow text without bound are stopped', () => {
    const double = { type: 'Replace', pattern: { String: 'a' }, content: 'aa' };
    const tokenizer = createTokenizer(
      jsonSource({ ...SMALL, normalizer: { type: 'Sequence', normalizers: Array.from({ length: 40 }, () => double) } }),
      10,
    );
    expect(() => tokenizer.encode('a'.repeat(1000))).toThrow(
      'normalizer: found a text that grows from 1000 to 128000 UTF-16 units, expected at most 68096',
    );
  });
});

test('a model without a tokenizer refuses text and says why', () => {
  const tokenizer = createTokenizer({ kind: 'none', reason: 'no tokenizer.json' }, 10);
  expect(() => tokenizer.encode('a')).toThrow('no tokenizer.json');
  expect(() => tokenizer.encodeChat([])).toThrow(RowError);
  expect(tokenizer.decode([1])).toBe('');
  expect(tokenizer.stream().push(1) + tokenizer.stream().end() + tokenizer.text(1)).toBe('');
  expect(tokenizer.endTokens.size).toBe(0);
});
