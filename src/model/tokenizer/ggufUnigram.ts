import { foundInFile } from '../../arguments/found.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { CharacterMap } from './CharacterMap.js';
import { createDecoder } from './decoders.js';
import {
  addedTokens,
  BYTE,
  common,
  type GgufVocabulary,
  isControl,
  optionalId,
  USER_DEFINED,
} from './ggufVocabulary.js';
import { createNormalizer } from './Normalizer.js';
import type { TokenizerParts } from './PartsTokenizer.js';
import { createPreTokenizer } from './PreTokenizer.js';
import { CachedModel, wordByWord } from './TokenModel.js';
import { UnigramModel } from './UnigramModel.js';

const BLANK = '▁';

/** SentencePiece's unigram models, `t5` to llama.cpp: those of T5 and of XLM-RoBERTa. */
export function fromUnigram(vocabulary: GgufVocabulary): TokenizerParts {
  const { guard, fields, get, ids, tokens } = vocabulary;
  const pieces = piecesOf(vocabulary);
  const model = new CachedModel(
    new UnigramModel({ pieces, unknownToken: optionalId(vocabulary, 'unknown_token_id'), byteFallback: false, guard }),
  );
  const addSpace = fields.flag('tokenizer.ggml.add_space_prefix', get('add_space_prefix'), true);
  const merged = fields.flag('tokenizer.ggml.remove_extra_whitespaces', get('remove_extra_whitespaces'), false);
  const replaced = (pattern: object, content: string): object => ({ type: 'Replace', pattern, content });
  const prepended = { type: 'Prepend', prepend: BLANK };
  const around = common(vocabulary, false, true);
  const end = around.suffix;
  return {
    guard,
    tokens,
    addedTokens: addedTokens(vocabulary, (token) => token.replaceAll(BLANK, ' '), false),
    normalizer: createNormalizer(
      guard,
      {
        type: 'Sequence',
        // As llama.cpp does it: where blanks are merged each word has one before it, the first one too.
        normalizers: merged
          ? [replaced({ Regex: '^ +| +$' }, ''), replaced({ Regex: ' +' }, BLANK), prepended]
          : [...(addSpace ? [prepended] : []), replaced({ String: ' ' }, BLANK)],
      },
      characterMap(vocabulary),
    ),
    preTokenizer: createPreTokenizer(guard, null),
    model: (ids.has(BLANK) ? wordByWord(model, tokensOf(pieces)) : undefined) ?? model,
    decoder: createDecoder(guard, { type: 'Metaspace', replacement: BLANK, prepend_scheme: 'always' }),
    ...around,
    pair: { prefix: around.prefix, middle: [...end, ...end], suffix: end },
  };
}

function piecesOf({ fields, get, ids, tokens, types }: GgufVocabulary): (readonly [string, number] | undefined)[] {
  const scores = fields.numbers('tokenizer.ggml.scores', get('scores'));
  if (scores.length !== tokens.length)
    fields.refuse('tokenizer.ggml.scores', `${scores.length} scores`, `${tokens.length}, one a token`);
  let units = 0;
  const pieces = tokens.map((token, id): readonly [string, number] | undefined => {
    const type = types?.[id];
    if (token === '' || isControl(type) || type === BYTE || ids.get(token) !== id) return undefined;
    units += token.length;
    const score = type === USER_DEFINED ? 0 : scores[id];
    if (score === undefined || !Number.isFinite(score))
      return fields.refuse(`tokenizer.ggml.scores[${id}]`, String(score), 'a finite number');
    return [token, score];
  });
  fields.atMost('tokenizer.ggml.tokens', units, TOKENIZER_LIMITS.unigramUnits, 'UTF-16 units in all pieces');
  return pieces;
}

function* tokensOf(pieces: readonly (readonly [string, number] | undefined)[]): Generator<string> {
  for (const piece of pieces) if (piece) yield piece[0];
}

function characterMap({ fields, get }: GgufVocabulary): CharacterMap | undefined {
  const field = 'tokenizer.ggml.precompiled_charsmap';
  const value = get('precompiled_charsmap');
  if (value === undefined) return undefined;
  const bytes =
    value instanceof Int8Array || value instanceof Uint8Array
      ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
      : fields.refuse(field, foundInFile(value), 'bytes');
  return bytes.length === 0 ? undefined : new CharacterMap(fields, field, bytes);
}
