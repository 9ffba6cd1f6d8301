import { foundInFile } from '../../arguments/found.js';
import type { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';

/** Reads tokenizer.json's `model.vocab` of a BPE: an object from token to id. */
export function readVocabulary(fields: Fields, value: unknown): Map<string, number> {
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(fields.object('model.vocab', value))) {
    const field = `model.vocab[${foundInFile(token)}]`;
    vocabulary.set(fields.tokenText(field, token), fields.tokenId(field, id));
  }
  if (vocabulary.size === 0) fields.refuse('model.vocab', 'no tokens', 'at least one');
  return vocabulary;
}

/** Id to token. @throws ModelFileError if two tokens have one id */
export function invertVocabulary(fields: Fields, vocabulary: ReadonlyMap<string, number>): (string | undefined)[] {
  let largest = -1;
  for (const id of vocabulary.values()) largest = Math.max(largest, id);
  const tokens = new Array<string | undefined>(largest + 1).fill(undefined);
  for (const [token, id] of vocabulary) {
    const other = tokens[id];
    if (other !== undefined)
      fields.refuse(
        'model.vocab',
        `id ${id} for both ${foundInFile(other)} and ${foundInFile(token)}`,
        'one token an id',
      );
    tokens[id] = token;
  }
  return tokens;
}

/**
 * Reads merges, `"a b"` or `["a", "b"]`, into ids: left, right and what comes of them, one after the other.
 * @param prefixLength characters that the second half loses when it is joined (a continuing-subword prefix)
 */
export function readMerges(
  fields: Fields,
  field: string,
  value: unknown,
  vocabulary: ReadonlyMap<string, number>,
  prefixLength: number,
): Int32Array {
  const idOf = (token: string, i: number): number =>
    vocabulary.get(token) ??
    fields.refuse(`${field}[${i}]`, `${foundInFile(token)}, which is no token`, 'tokens of the vocabulary');
  const merges = fields.array(field, value);
  fields.atMost(field, merges.length, TOKENIZER_LIMITS.merges, 'merges');
  const ids = new Int32Array(3 * merges.length);
  merges.forEach((merge, i) => {
    let pair: readonly unknown[] | undefined;
    if (typeof merge === 'string') {
      const blank = merge.indexOf(' ');
      if (blank > 0 && merge.indexOf(' ', blank + 1) < 0) pair = [merge.slice(0, blank), merge.slice(blank + 1)];
    } else if (Array.isArray(merge)) pair = merge as unknown[];
    const [left, right] = pair ?? [];
    if (pair?.length !== 2 || typeof left !== 'string' || typeof right !== 'string' || left === '' || right === '') {
      fields.refuse(`${field}[${i}]`, foundInFile(merge), 'two tokens, as "a b" or ["a", "b"]');
    }
    ids.set([idOf(left, i), idOf(right, i), idOf(left + right.slice(prefixLength), i)], 3 * i);
  });
  return ids;
}
