import { readFileSync } from 'node:fs';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import type { TokenizerSource } from '../../../src/model/ModelSource.js';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';

/** What make_tokenizers.py writes for each tokenizer. */
export interface Reference {
  readonly surroundings: readonly number[];
  /** Ids of each string without surroundings, control text parsed; and as data, where that differs. */
  readonly bare: readonly number[][];
  readonly data: Readonly<Record<string, number[]>>;
  /** Ids, their text without special tokens, and with them. */
  readonly texts: readonly [number[], string, string][];
  /** SentencePiece's ids for the text as data. */
  readonly gguf?: readonly number[][];
}

export interface Fixture {
  readonly tokenizer: Record<string, unknown> & {
    model: Record<string, unknown>;
    added_tokens: Record<string, unknown>[];
  };
  readonly config: Record<string, unknown>;
  readonly gguf?: Readonly<Record<string, unknown>>;
  readonly reference: Reference;
}

function read(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../fixtures/tokenizers/${name}`, import.meta.url), 'utf8'));
}

export const strings = read('strings.json') as string[];

export function fixture(name: string): Fixture {
  return read(`${name}.json`) as Fixture;
}

export function reference(name: string): Reference {
  return read(`${name}.reference.json`) as Reference;
}

export function jsonSource(
  tokenizer: unknown,
  config: unknown = {},
  more: { chatTemplate?: string; endTokens?: readonly number[] } = {},
): TokenizerSource {
  return { kind: 'tokenizer.json', file: 'tokenizer.json', tokenizer, config, endTokens: [], ...more };
}

export function ggufSource(metadata: Readonly<Record<string, unknown>>): TokenizerSource {
  return { kind: 'gguf', metadata: new Map(Object.entries(metadata)) };
}

export function open(
  name: string,
  format: 'tokenizer.json' | 'gguf' = 'tokenizer.json',
  more: Record<string, unknown> = {},
): Tokenizer {
  const { tokenizer, config, gguf } = fixture(name);
  return createTokenizer(
    format === 'gguf' ? ggufSource({ ...gguf, ...more }) : jsonSource(tokenizer, { ...config, ...more }),
    100_000,
  );
}
