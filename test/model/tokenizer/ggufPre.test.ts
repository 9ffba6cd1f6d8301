import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/files/Fields.js';
import { GGUF_PRE_TOKENIZERS } from '../../../src/model/tokenizer/ggufPreTokenizers.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { createPreTokenizer } from '../../../src/model/tokenizer/PreTokenizer.js';
import { strings } from './fixtures.js';

const FIXTURE = new URL('../../fixtures/tokenizers/gguf-pre.json', import.meta.url);
const references = JSON.parse(readFileSync(FIXTURE, 'utf8')) as Readonly<
  Record<string, { readonly sha256: string; readonly shown: Readonly<Record<string, readonly string[]>> }>
>;
const whole = strings.filter((text) => !/\p{Cs}/u.test(text));

/** What a name's expressions part texts into; the bytes that pieces are written in come after. */
function splitterOf(name: string): (text: string) => readonly string[] {
  const { pretokenizers } = GGUF_PRE_TOKENIZERS.get(name)?.preTokenizer as { readonly pretokenizers: unknown[] };
  const made = createPreTokenizer(new Guard(new Fields('model.gguf')), {
    type: 'Sequence',
    pretokenizers: pretokenizers.slice(0, -1),
  });
  return (text) => {
    const pieces = made.split(text, 'first');
    return 'next' in pieces ? [...pieces].flatMap((batch) => batch ?? []) : pieces;
  };
}

test.each(Object.entries(references))('%s parts texts as the tokenizer.json of its models does', (name, reference) => {
  const split = splitterOf(name);
  for (const [text, pieces] of Object.entries(reference.shown)) expect(split(text)).toEqual(pieces);
  const all = JSON.stringify(whole.map((text) => split(text).filter((piece) => piece !== '')));
  expect(createHash('sha256').update(all).digest('hex')).toBe(reference.sha256);
});

test('names of one expression have the same; what begins a text, and pieces that are tokens, are as llama.cpp has it', () => {
  for (const [name, like] of [
    ['lfm2', 'llama3'],
    ['glm5', 'glm4'],
    ['minimax-m2', 'llama4'],
    ['mellum', 'exaone4'],
    ['hunyuan-dense', 'deepseek-v3'],
    ['gpt3-finnish', 'bloom'],
  ] as const)
    expect(GGUF_PRE_TOKENIZERS.get(name)).toEqual(GGUF_PRE_TOKENIZERS.get(like));
  const facts = (name: string): unknown => {
    const { wholePieceFirst, addBegin } = GGUF_PRE_TOKENIZERS.get(name) ?? {};
    return [wholePieceFirst, addBegin];
  };
  expect(['lfm2', 'glm4', 'chatglm-bpe', 'youtu', 'minicpm5', 'deepseek-v3'].map(facts)).toEqual([
    [true, true],
    [true, false],
    [false, false],
    [true, false],
    [true, false],
    [false, false],
  ]);
  expect(GGUF_PRE_TOKENIZERS.size).toBeGreaterThanOrEqual(84);
});
