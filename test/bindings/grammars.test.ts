import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { NativeGrammar, NativeVocabulary, TokenTexts } from '../../src/bindings/Grammars.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { describeGrammars } from '../support/grammars.js';
import { greedyRow } from './support/runPass.js';
import { makeTinyModel } from './support/tinyModel.js';

const addon = loadAddon();
const bytes = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text));

/** Letters, and an end. */
const LETTERS: TokenTexts = {
  bytes: bytes('abcdefghij'),
  lengths: Uint32Array.from([...Array.from({ length: 10 }, () => 1), 0]),
  firstTokens: new Uint32Array(),
  firstBytes: new Uint8Array(),
  firstLengths: new Uint32Array(),
  ends: Uint32Array.of(10),
};

/** What a call throws or rejects with. */
async function refusal(call: () => unknown): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    return error;
  }
}

describeGrammars('vocabularies and grammars of the addon', () => {
  test.each<[string, Partial<Record<keyof TokenTexts, unknown>>, string]>([
    ['other bytes than lengths', { bytes: bytes('abc') }, 'lengths: found 10 bytes, expected the 3 given'],
    ['an end that is no token', { ends: Uint32Array.of(11) }, 'end token'],
    [
      'a first token that is none',
      { firstTokens: Uint32Array.of(11), firstLengths: Uint32Array.of(0) },
      'token 11 of 11',
    ],
    ['first texts of other tokens', { firstTokens: Uint32Array.of(1) }, 'firstLengths'],
    ['no tokens', { bytes: new Uint8Array(), lengths: new Uint32Array(), ends: new Uint32Array() }, 'no tokens'],
    ['arrays of another kind', { bytes: 'abc' }, 'bytes: found "abc", expected a Uint8Array'],
    ['lengths beyond all memory', { lengths: Uint32Array.from({ length: 11 }, () => 2 ** 32 - 1) }, 'lengths: found'],
  ])('a vocabulary with %s is refused', async (_what, change, message) => {
    expect(await refusal(() => addon.createVocabulary({ ...LETTERS, ...change } as TokenTexts))).toMatchObject({
      code: 'invalid-argument',
      message: expect.stringContaining(message) as unknown,
    });
  });

  test('whatever is passed, a call ends with a value or a coded error', async () => {
    const vocabulary = await addon.createVocabulary(LETTERS);
    const anything = fc.oneof(
      fc.constantFrom<unknown>(vocabulary, undefined, null, {}, 'regex', 'json_schema', 'a+', '{}', new Uint8Array(3)),
      fc.anything(),
    );
    await fc.assert(
      fc.asyncProperty(anything, anything, anything, async (first, second, third) => {
        const outcome = await refusal(() =>
          addon.compileGrammar(first as NativeVocabulary, second as 'regex', third as string),
        );
        expect(typeof outcome === 'object' && outcome !== null && (!('message' in outcome) || 'code' in outcome)).toBe(
          true,
        );
      }),
    );
  });

  test('rows take a grammar that was compiled, for tokens that the model has, and nothing else', async () => {
    const model = makeTinyModel();
    const runtime = addon.openRuntime(model.options());
    const vocabulary = await addon.createVocabulary(LETTERS);
    const row = { ...greedyRow, tokens: Int32Array.of(1) };
    const grammar = await addon.compileGrammar(vocabulary, 'regex', 'ab*');
    expect(runtime.createRow({ ...row, grammar })).toBeGreaterThanOrEqual(0);
    for (const other of [vocabulary, {}, 7, null]) {
      expect(await refusal(() => runtime.createRow({ ...row, grammar: other as NativeGrammar }))).toMatchObject({
        code: 'invalid-argument',
        message: expect.stringContaining('expected a grammar of compileGrammar') as unknown,
      });
    }
    const many = {
      ...LETTERS,
      bytes: bytes('a'.repeat(500)),
      lengths: Uint32Array.from({ length: 501 }, (_, i) => (i < 500 ? 1 : 0)),
      ends: Uint32Array.of(500),
    };
    const larger = await addon.compileGrammar(await addon.createVocabulary(many), 'regex', 'a+');
    expect(await refusal(() => runtime.createRow({ ...row, grammar: larger }))).toMatchObject({
      code: 'invalid-argument',
      message: expect.stringContaining('501 tokens') as unknown,
    });
    await runtime.close();
    model.remove();
  });
});
