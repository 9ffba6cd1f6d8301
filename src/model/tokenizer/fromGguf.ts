import type { TokenizerSource } from '../ModelSource.js';
import type { AddedToken } from './AddedTokens.js';
import { BpeModel } from './BpeModel.js';
import { CachedModel, wordByWord } from './TokenModel.js';
import { ChatTemplate } from './ChatTemplate.js';
import { createDecoder } from './decoders.js';
import { foundInFile } from '../../arguments/found.js';
import { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { checkAddedTokens } from './addedTokenList.js';
import { Guard } from './Guard.js';
import { withAlphabet } from './fromTokenizerJson.js';
import { GGUF_PRE_TOKENIZERS } from './ggufPreTokenizers.js';
import { createNormalizer } from './Normalizer.js';
import { createPreTokenizer } from './PreTokenizer.js';
import { SentencePieceModel } from './SentencePieceModel.js';
import type { TokenizerParts } from './PartsTokenizer.js';
import { readMerges } from './vocabulary.js';
import { WordPieceModel } from './WordPieceModel.js';

/** `tokenizer.ggml.token_type`. Normal tokens are 1. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const UNUSED = 5;
const BYTE = 6;

/**
 * Tokens that end a text or a turn, whatever else a file names, as in llama.cpp (but for those of filling in the
 * middle).
 */
const ENDS: ReadonlySet<string> = new Set([
  '<|im_end|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end|>',
  '<end_of_turn>',
  '<|endoftext|>',
  '<|end_of_text|>',
  '<EOT>',
  '_<EOT>',
]);

/**
 * Tokens that end a turn of models whose messages have channels (gpt-oss): where both are there `<|end|>` ends a
 * message alone, behind which the answer goes on, as in llama.cpp.
 */
const CHANNEL_ENDS = ['<|return|>', '<|call|>'] as const;
const MESSAGE_END = '<|end|>';

interface Vocabulary {
  readonly guard: Guard;
  readonly fields: Fields;
  readonly get: (key: string) => unknown;
  readonly tokens: readonly string[];
  /** The first id of each token: some files have a text twice. */
  readonly ids: ReadonlyMap<string, number>;
  readonly types: ArrayLike<number> | undefined;
  /** Chat templates by name. */
  readonly templates: ReadonlyMap<string, string>;
}

/** Builds a tokenizer from a GGUF file's metadata. */
export function fromGguf(source: Extract<TokenizerSource, { kind: 'gguf' }>): TokenizerParts {
  const vocabulary = readTokens(source.metadata);
  const { fields, get } = vocabulary;
  const model = get('model');
  if (model === 'gpt2') return fromByteLevel(vocabulary);
  if (model === 'llama') return fromSentencePiece(vocabulary);
  if (model === 'bert') return fromWordPiece(vocabulary);
  return fields.refuse('tokenizer.ggml.model', foundInFile(model), 'gpt2, llama or bert');
}

function readTokens(metadata: ReadonlyMap<string, unknown>): Vocabulary {
  const fields = new Fields('GGUF metadata');
  const get = (key: string): unknown => metadata.get(`tokenizer.ggml.${key}`);
  const list = fields.array('tokenizer.ggml.tokens', get('tokens'));
  if (list.length === 0 || list.length > TOKENIZER_LIMITS.tokenId)
    fields.refuse('tokenizer.ggml.tokens', `${list.length} tokens`, `1 to ${TOKENIZER_LIMITS.tokenId}`);
  const tokens = list.map((token, i) => fields.tokenText(`tokenizer.ggml.tokens[${i}]`, token));
  const types =
    get('token_type') === undefined ? undefined : fields.numbers('tokenizer.ggml.token_type', get('token_type'));
  if (types !== undefined && types.length !== tokens.length) {
    fields.refuse('tokenizer.ggml.token_type', `${types.length} types`, `${tokens.length}, one a token`);
  }
  const ids = new Map<string, number>();
  tokens.forEach((token, id) => {
    if (!ids.has(token)) ids.set(token, id);
  });
  return { guard: new Guard(fields), fields, get, tokens, ids, types, templates: chatTemplates(metadata, fields) };
}

const TEMPLATE = 'tokenizer.chat_template';

/** `tokenizer.chat_template`, and those that have names: `tokenizer.chat_template.NAME`. */
function chatTemplates(metadata: ReadonlyMap<string, unknown>, fields: Fields): ReadonlyMap<string, string> {
  const templates = new Map<string, string>();
  for (const [key, value] of metadata) {
    if (key === TEMPLATE) templates.set('default', fields.string(key, value));
    else if (key.startsWith(`${TEMPLATE}.`)) templates.set(key.slice(TEMPLATE.length + 1), fields.string(key, value));
  }
  return templates;
}

function fromByteLevel(vocabulary: Vocabulary): TokenizerParts {
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

/** Characters of a word from which on it is unknown, as llama.cpp's files do not say. */
const LONGEST_WORD = 100;

/** BERT's: pieces that begin a word have SentencePiece's blank before them, those that go on have nothing. */
function fromWordPiece(vocabulary: Vocabulary): TokenizerParts {
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

function fromSentencePiece(vocabulary: Vocabulary): TokenizerParts {
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
  const blanks = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const toBlank = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  const stages = [
    toBlank,
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
      normalizers: [...(addSpace ? [{ type: 'Prepend', prepend: '▁' }] : []), blanks],
    }),
    preTokenizer: createPreTokenizer(guard, null),
    model: (pieces.has('▁') ? wordByWord(cached, pieces.keys()) : undefined) ?? cached,
    decoder: createDecoder(guard, { type: 'Sequence', decoders: stages }),
    ...common(vocabulary, true),
  };
}

function isControl(type: number | undefined): boolean {
  return type === UNKNOWN || type === CONTROL;
}

/** Control, unknown and user-defined tokens are matched in the text before anything else. */
function addedTokens(
  { fields, tokens, types, ids }: Vocabulary,
  contentOf: (token: string) => string,
  normalized: boolean,
): AddedToken[] {
  const added: AddedToken[] = [];
  tokens.forEach((token, id) => {
    const type = types?.[id];
    if ((!isControl(type) && type !== USER_DEFINED) || ids.get(token) !== id) return;
    const content = contentOf(token);
    if (content === '') return;
    const special = type !== USER_DEFINED;
    added.push({
      id,
      content,
      special,
      normalized: normalized && !special,
      singleWord: false,
      stripLeft: false,
      stripRight: false,
    });
  });
  return checkAddedTokens(fields, added);
}

/**
 * An id of the metadata; absent is undefined, and so is the largest 32-bit integer, which some writers put for "none".
 */
function optionalId({ fields, get, tokens }: Vocabulary, key: string): number | undefined {
  const value = get(key);
  if (value === undefined || value === 0xffffffff || value === -1) return undefined;
  const id = fields.tokenId(`tokenizer.ggml.${key}`, value);
  if (id >= tokens.length)
    fields.refuse(`tokenizer.ggml.${key}`, String(id), `an id below ${tokens.length}, the number of tokens`);
  return id;
}

function common(
  vocabulary: Vocabulary,
  addBeginByDefault: boolean,
): Pick<TokenizerParts, 'prefix' | 'suffix' | 'beginToken' | 'endTokens' | 'chatTemplate'> {
  const { guard, fields, get, tokens, types, templates } = vocabulary;
  const begin = optionalId(vocabulary, 'bos_token_id');
  const end = optionalId(vocabulary, 'eos_token_id');
  const addBegin =
    fields.flag('tokenizer.ggml.add_bos_token', get('add_bos_token'), addBeginByDefault) && begin !== undefined;
  const addEnd = fields.flag('tokenizer.ggml.add_eos_token', get('add_eos_token'), false) && end !== undefined;
  const ends = new Set<number>();
  const isControl = (id: number): boolean => types?.[id] === CONTROL || types?.[id] === USER_DEFINED;
  const channelEnds = CHANNEL_ENDS.map((text) => tokens.findIndex((token, id) => token === text && isControl(id)));
  const hasChannels = channelEnds.every((id) => id >= 0);
  if (hasChannels) for (const id of channelEnds) ends.add(id);
  for (const id of [end, optionalId(vocabulary, 'eot_token_id'), optionalId(vocabulary, 'eom_token_id')])
    if (id !== undefined) ends.add(id);
  tokens.forEach((token, id) => {
    if (isControl(id) && ENDS.has(token) && !(hasChannels && token === MESSAGE_END)) ends.add(id);
  });
  const variables: Record<string, string> = {};
  for (const [name, id] of [
    ['bos_token', begin],
    ['eos_token', end],
    ['unk_token', optionalId(vocabulary, 'unknown_token_id')],
    ['pad_token', optionalId(vocabulary, 'padding_token_id')],
  ] as const) {
    if (id !== undefined) variables[name] = tokens[id] ?? '';
  }
  return {
    prefix: addBegin ? [begin] : [],
    suffix: addEnd ? [end] : [],
    beginToken: addBegin ? begin : undefined,
    endTokens: [...ends],
    chatTemplate: templates.size === 0 ? undefined : new ChatTemplate(templates, variables, guard),
  };
}
