import { expect, test } from '@jest/globals';
import type { NativeGrammar, NativeVocabulary, TokenTexts } from '../../../src/bindings/Grammars.js';
import { Grammars, GRAMMARS_KEPT } from '../../../src/engine/grammar/Grammars.js';
import { ResponseFormatError } from '../../../src/errors/RowError.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

/** An addon that compiles anything but the texts it is told to refuse, and notes what it was asked. */
function fakeAddon(refusals: Readonly<Record<string, string>> = {}): {
  texts: TokenTexts[];
  compiled: string[];
  grammars: boolean;
  createVocabulary: (texts: TokenTexts) => Promise<NativeVocabulary>;
  compileGrammar: (vocabulary: NativeVocabulary, kind: string, text: string) => Promise<NativeGrammar>;
} {
  const [texts, compiled]: [TokenTexts[], string[]] = [[], []];
  return {
    texts,
    compiled,
    grammars: true,
    createVocabulary: (given) => {
      texts.push(given);
      return Promise.resolve({} as NativeVocabulary);
    },
    compileGrammar: (_vocabulary, kind, text) => {
      compiled.push(`${kind} ${text}`);
      const message = refusals[text];
      return message === undefined
        ? Promise.resolve({} as NativeGrammar)
        : Promise.reject(Object.assign(new Error(message), { code: 'invalid-argument' }));
    },
  };
}
const tokenizer = {
  ...letterTokenizer(),
  answerBytes: (token: number, first: boolean) =>
    token < 26 ? Uint8Array.of(...(first || token > 0 ? [] : [32]), 97 + token) : new Uint8Array(),
};
const regex = (text: string): { type: 'regex'; regex: string } => ({ type: 'regex', regex: text });

test('a format is compiled once, the tokens are handed over once', async () => {
  const addon = fakeAddon();
  const grammars = new Grammars(addon, tokenizer, 27);
  const [a, again, b] = await Promise.all([grammars.of(regex('a')), grammars.of(regex('a')), grammars.of(regex('b'))]);
  expect(again).toBe(a);
  expect(b).not.toBe(a);
  expect(addon.compiled).toEqual(['regex a', 'regex b']);
  const [texts] = addon.texts;
  expect(addon.texts).toHaveLength(1);
  // 'a' is " a", but for the beginning of an answer; the end has no bytes.
  expect(Buffer.from(texts?.bytes ?? []).toString()).toBe(' abcdefghijklmnopqrstuvwxyz');
  expect([...(texts?.lengths ?? [])]).toEqual([2, ...Array.from({ length: 25 }, () => 1), 0]);
  expect([
    [...(texts?.firstTokens ?? [])],
    Buffer.from(texts?.firstBytes ?? []).toString(),
    [...(texts?.firstLengths ?? [])],
    [...(texts?.ends ?? [])],
  ]).toEqual([[0], 'a', [1], [26]]);
});

test('the last ones used are kept, by their number and size', async () => {
  const addon = fakeAddon();
  const grammars = new Grammars(addon, tokenizer, 27);
  for (let i = 0; i <= GRAMMARS_KEPT.count; i++) {
    await grammars.of(regex(`a${i}`));
    await grammars.of(regex('a0'));
  }
  expect(addon.compiled).toHaveLength(GRAMMARS_KEPT.count + 1);
  await grammars.of(regex('a1'));
  expect(addon.compiled).toHaveLength(GRAMMARS_KEPT.count + 2);
  await grammars.of(regex('x'.repeat(GRAMMARS_KEPT.bytes)));
  await grammars.of(regex('a0'));
  expect(addon.compiled).toHaveLength(GRAMMARS_KEPT.count + 4);
});

test('a schema that cannot be enforced is refused with its place, and not compiled', async () => {
  const addon = fakeAddon();
  const error = await new Grammars(addon, tokenizer, 27)
    .of({ type: 'json_schema', schema: { properties: { a: { $ref: 'x.json' } } } })
    .catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ResponseFormatError);
  expect(error).toMatchObject({ code: 'response-format', path: '/properties/a/$ref', keyword: '$ref' });
  expect(addon.compiled).toEqual([]);
});

test('what the compiler refuses is not compiled again', async () => {
  const addon = fakeAddon({ '(': 'found no end' });
  const grammars = new Grammars(addon, tokenizer, 27);
  const error = await grammars.of(regex('(')).catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    code: 'response-format',
    message: expect.stringContaining('regular expression that answers cannot be held to: found no end') as unknown,
  });
  await expect(grammars.of(regex('('))).rejects.toBe(error);
  expect(addon.compiled).toHaveLength(1);
});

test('a compiled schema reads values, and says what is wrong with them', async () => {
  const format = await new Grammars(fakeAddon(), tokenizer, 27).of({
    type: 'json_schema',
    schema: { type: 'object', required: ['a'] },
  });
  expect(format.read('{"a":1}')).toEqual({ value: { a: 1 } });
  expect(format.read('{"b":1}')).toEqual({ problem: expect.stringContaining('"a"') as unknown });
  expect(format.read('{"a":')).toEqual({ problem: expect.stringContaining('no JSON') as unknown });
  expect((await new Grammars(fakeAddon(), tokenizer, 27).of(regex('a'))).read('a')).toEqual({ value: 'a' });
});

test('without grammars in the addon, or bytes of tokens, the remedy or the reason is named', async () => {
  await expect(new Grammars({ ...fakeAddon(), grammars: false }, tokenizer, 27).of(regex('a'))).rejects.toThrow(
    /install Rust's cargo .* and build it again/,
  );
  await expect(new Grammars(fakeAddon(), letterTokenizer(), 27).of(regex('a'))).rejects.toThrow(
    /found a tokenizer whose tokens are no text by themselves/,
  );
});

test('what the compiler says is said in one line', async () => {
  const drawn =
    'at 1(8): invalid regex "(a" (in regex): regex parse error:\n    (a\n    ^\nerror: unclosed group\n   1 | start: /(a/';
  const grammars = new Grammars(fakeAddon({ '(a': drawn, '(b': 'found no end\n  of b\n' }), tokenizer, 27);
  await expect(grammars.of(regex('(a'))).rejects.toThrow(
    /cannot be held to: at 1\(8\): invalid regex "\(a": unclosed group$/,
  );
  await expect(grammars.of(regex('(b'))).rejects.toThrow(/cannot be held to: found no end of b$/);
});
