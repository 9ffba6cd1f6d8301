import type { TokenizerSource } from '../ModelSource.js';
import type { AddedToken } from './AddedTokens.js';
import { BpeModel } from './BpeModel.js';
import { CachedModel, wordByWord } from './TokenModel.js';
import { createDecoder } from './decoders.js';
import { foundInFile } from '../../arguments/found.js';
import { checkAddedTokens } from './addedTokenList.js';
import { mergedTokens, withAlphabet } from './fromTokenizerJson.js';
import { GGUF_PRE_TOKENIZERS } from './ggufPreTokenizers.js';
import { fromUnigram } from './ggufUnigram.js';
import {
  addedTokens,
  BYTE,
  common,
  type GgufVocabulary,
  isControl,
  optionalId,
  readTokens,
  UNUSED,
} from './ggufVocabulary.js';
import { createNormalizer } from './Normalizer.js';
import { createPreTokenizer } from './PreTokenizer.js';
import { SentencePieceModel } from './SentencePieceModel.js';
import type { TokenizerParts } from './PartsTokenizer.js';
import { readMerges } from './vocabulary.js';
import { WordPieceModel } from './WordPieceModel.js';

/** Builds a tokenizer from a GGUF file's metadata. */
export function fromGguf(source: Extract<TokenizerSource, { kind: 'gguf' }>): TokenizerParts {
  const vocabulary = readTokens(source.metadata);
  const { fields, get } = vocabulary;
  const model = get('model');
  if (model === 'gpt2') return fromByteLevel(vocabulary);
  if (model === 'llama') return fromSentencePiece(vocabulary);
  if (model === 'bert') return fromWordPiece(vocabulary);
  if (model === 't5') return fromUnigram(vocabulary);
  if (model === 'gemma4') return fromBlanksAndMerges(vocabulary);
  return fields.refuse('tokenizer.ggml.model', foundInFile(model), 'gpt2, llama, bert, t5 or gemma4');
}

function fromByteLevel(vocabulary: GgufVocabulary): TokenizerParts {
  const { guard, fields, get, ids, tokens, types } = vocabulary;
  const name = get('pre') ?? 'default';
  const known =
    GGUF_PRE_TOKENIZERS.get(typeof name === 'string' ? name : '') ??
    fields.refuse('tokenizer.ggml.pre', foundInFile(name), `one of ${[...GGUF_PRE_TOKENIZERS.keys()].join(', ')}`);
  const preTokenizer = createPreTokenizer(guard, known.preTokenizer);
  const model = new BpeModel({
    // Control tokens are in the list of all tokens; text that is data must not become one as a whole piece.
    vocabulary: new Map([...ids].filter(([, id]) => !isControl(types?.[id]))),
    merges: readMerges(fields, 'tokenizer.ggml.merges', get('merges'), ids, 0),
    fuseUnknown: false,
    byteFallback: false,
    wholePieceFirst: known.wholePieceFirst,
    continuingPrefix: '',
    endOfWordSuffix: '',
  });
  return {
    guard,
    tokens,
    addedTokens: addedTokens(vocabulary, (token) => token, false),
    normalizer: createNormalizer(guard, known.normalizer),
    preTokenizer,
    model: withAlphabet(model, preTokenizer),
    decoder: createDecoder(guard, { type: 'ByteLevel' }),
    ...common(vocabulary, known.addBegin),
  };
}

const BLANKS = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
const TO_BLANKS = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };

/** Gemma 4's: SentencePiece's blanks and bytes, and merges. */
function fromBlanksAndMerges(vocabulary: GgufVocabulary): TokenizerParts {
  const { guard, fields, get, ids, tokens, types } = vocabulary;
  const merges = readMerges(fields, 'tokenizer.ggml.merges', get('merges'), ids, 0);
  const cached = new CachedModel(
    new BpeModel({
      vocabulary: new Map([...ids].filter(([, id]) => !isControl(types?.[id]))),
      merges,
      unknownToken: optionalId(vocabulary, 'unknown_token_id'),
      fuseUnknown: true,
      byteFallback: true,
      wholePieceFirst: false,
      continuingPrefix: '',
      endOfWordSuffix: '',
    }),
  );
  return {
    guard,
    tokens,
    addedTokens: addedTokens(vocabulary, (token) => token, true),
    normalizer: createNormalizer(guard, BLANKS),
    preTokenizer: createPreTokenizer(guard, null),
    model: (ids.has('▁') ? wordByWord(cached, mergedTokens(merges, tokens)) : undefined) ?? cached,
    decoder: createDecoder(guard, {
      type: 'Sequence',
      decoders: [TO_BLANKS, { type: 'ByteFallback' }, { type: 'Fuse' }],
    }),
    ...common(vocabulary, true),
  };
}

/** Characters of a word from which on it is unknown, as llama.cpp's files do not say. */
const LONGEST_WORD = 100;

/** BERT's: pieces that begin a word have SentencePiece's blank before them, those that go on have nothing. */
function fromWordPiece(vocabulary: GgufVocabulary): TokenizerParts {
  const { guard, fields, ids, types } = vocabulary;
  const isSpecial = (token: string, id: number): boolean => isControl(types?.[id]) || /^\[.+\]$/u.test(token);
  const written = (token: string, id: number): string =>
    isSpecial(token, id) ? token : token.startsWith('▁') ? token.slice(1) : `##${token}`;
  const pieces = new Map<string, number>();
  for (const [token, id] of ids) {
    const piece = written(token, id);
    if (piece !== '' && !pieces.has(piece)) pieces.set(piece, id);
  }
  const idOf = (key: string, token: string): number =>
    optionalId(vocabulary, key) ??
    ids.get(token) ??
    fields.refuse(`tokenizer.ggml.${key}`, 'nothing', `the id of ${token}`);
  const [begin, end] = [idOf('cls_token_id', '[CLS]'), idOf('seperator_token_id', '[SEP]')];
  const model = new WordPieceModel({
    vocabulary: pieces,
    unknownToken: optionalId(vocabulary, 'unknown_token_id') ?? ids.get('[UNK]'),
    continuingPrefix: '##',
    mostCharacters: LONGEST_WORD,
    guard,
  });
  return {
    guard,
    tokens: vocabulary.tokens.map(written),
    addedTokens: checkAddedTokens(
      fields,
      [...ids]
        .filter(([token, id]) => token !== '' && isSpecial(token, id))
        .map(([content, id]): AddedToken => {
          const plain = { normalized: false, singleWord: false, stripLeft: false, stripRight: false };
          return { id, content, special: true, ...plain };
        }),
    ),
    normalizer: createNormalizer(guard, { type: 'BertNormalizer', lowercase: true }),
    preTokenizer: createPreTokenizer(guard, { type: 'BertPreTokenizer' }),
    model: new CachedModel(model),
    decoder: createDecoder(guard, { type: 'WordPiece' }),
    prefix: [begin],
    suffix: [end],
    pair: { prefix: [begin], middle: [end], suffix: [end], firstOfMiddle: 1 },
    beginToken: begin,
    endTokens: [],
    chatTemplate: undefined,
  };
}

function fromSentencePiece(vocabulary: GgufVocabulary): TokenizerParts {
  const { guard, fields, get, ids, tokens, types } = vocabulary;
  const scores = fields.numbers('tokenizer.ggml.scores', get('scores'));
  if (scores.length !== tokens.length)
    fields.refuse('tokenizer.ggml.scores', `${scores.length} scores`, `${tokens.length}, one a token`);
  const pieces = new Map<string, number>();
  const unused = new Set<number>();
  for (const [token, id] of ids) {
    const type = types?.[id];
    if (token === '' || isControl(type) || type === BYTE) continue;
    if (!Number.isFinite(scores[id]))
      fields.refuse(`tokenizer.ggml.scores[${id}]`, String(scores[id]), 'a finite number');
    pieces.set(token, id);
    if (type === UNUSED) unused.add(id);
  }
  const unknown = optionalId(vocabulary, 'unknown_token_id');
  const addSpace = fields.flag('tokenizer.ggml.add_space_prefix', get('add_space_prefix'), true);
  const cached = new CachedModel(
    new SentencePieceModel({ pieces, scores, unused, vocabulary: ids, unknownToken: unknown, guard }),
  );
  const stages = [
    TO_BLANKS,
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    ...(addSpace ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
  ];
  return {
    guard,
    tokens,
    // Control tokens are matched while blanks are still blanks. SentencePiece looks for user-defined ones in the
    // normalized text; with a blank before each section that would tie them to the beginning of a word, so there they
    // are matched in the text as well.
    addedTokens: addedTokens(vocabulary, (token) => token.replaceAll('▁', ' '), !addSpace),
    normalizer: createNormalizer(guard, {
      type: 'Sequence',
      normalizers: [...(addSpace ? [{ type: 'Prepend', prepend: '▁' }] : []), BLANKS],
    }),
    preTokenizer: createPreTokenizer(guard, null),
    model: (pieces.has('▁') ? wordByWord(cached, pieces.keys()) : undefined) ?? cached,
    decoder: createDecoder(guard, { type: 'Sequence', decoders: stages }),
    ...common(vocabulary, true),
  };
}
