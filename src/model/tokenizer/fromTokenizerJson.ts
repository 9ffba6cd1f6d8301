import { dirname, join } from 'node:path';
import type { TokenizerSource } from '../ModelSource.js';
import { readAddedTokens, specialContent, type TokenizerSettings } from './addedTokenList.js';
import { BpeModel } from './BpeModel.js';
import { toByteLevel } from './byteLevel.js';
import { ChatTemplate } from './ChatTemplate.js';
import { createDecoder } from './decoders.js';
import { foundInFile } from '../../arguments/found.js';
import { Fields, type JsonObject } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { Guard } from './Guard.js';
import { createNormalizer } from './Normalizer.js';
import { readPostProcessor } from './postProcessor.js';
import { rewritten } from './parts.js';
import { createPreTokenizer, type PreTokenizer } from './PreTokenizer.js';
import type { TokenizerParts } from './PartsTokenizer.js';
import { CachedModel, type TokenModel, wordByWord, WordLevelModel } from './TokenModel.js';
import { UnigramModel } from './UnigramModel.js';
import { invertVocabulary, readMerges, readVocabulary } from './vocabulary.js';
import { WordPieceModel } from './WordPieceModel.js';

/** Builds a tokenizer from tokenizer.json and tokenizer_config.json. */
export function fromTokenizerJson(source: Extract<TokenizerSource, { kind: 'tokenizer.json' }>): TokenizerParts {
  const fields = new Fields(source.file);
  const guard = new Guard(fields);
  const root = fields.object('file', source.tokenizer);
  const settings = readSettings(source);
  const normalizer = createNormalizer(guard, root.normalizer);
  const preTokenizer = createPreTokenizer(guard, root.pre_tokenizer);
  const { vocabulary, tokens, model } = readModel(guard, fields.object('model', root.model), preTokenizer);
  const addedTokens = readAddedTokens(fields, root.added_tokens, settings, vocabulary);
  const all = new Map(vocabulary);
  for (const { content, id } of addedTokens) all.set(content, id);
  // As in transformers: where there is a tokenizer.json, add_bos_token and add_eos_token say nothing.
  const around = readPostProcessor(fields, root.post_processor);
  const endTokens =
    source.endTokens.length > 0
      ? source.endTokens
      : [idOf(settings, 'eos_token', all)].filter((id) => id !== undefined);
  return {
    guard,
    tokens,
    addedTokens,
    normalizer,
    preTokenizer,
    model,
    decoder: createDecoder(guard, root.decoder),
    ...around,
    beginToken: around.prefix[0],
    endTokens: endTokens.map((id) => fields.tokenId('eos_token_id', id)),
    chatTemplate: chatTemplate(guard, settings, source),
  };
}

/** tokenizer_config.json lies beside tokenizer.json; its faults are its own. */
function readSettings({ file, config }: Extract<TokenizerSource, { kind: 'tokenizer.json' }>): TokenizerSettings {
  const fields = new Fields(join(dirname(file), 'tokenizer_config.json'));
  return { fields, config: fields.object('file', config) };
}

function idOf(settings: TokenizerSettings, name: string, ids: ReadonlyMap<string, number>): number | undefined {
  const content = specialContent(settings, name);
  return content === undefined ? undefined : ids.get(content);
}

interface ReadModel {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly tokens: readonly (string | undefined)[];
  readonly model: TokenModel;
}

function readModel(guard: Guard, config: JsonObject, preTokenizer: PreTokenizer): ReadModel {
  const { fields } = guard;
  const type = config.type ?? (config.merges === undefined ? undefined : 'BPE');
  if (type === 'BPE') return readBpe(fields, config, preTokenizer);
  if (type === 'Unigram') return readUnigram(guard, config, preTokenizer);
  if (type === 'WordLevel') return readWordLevel(fields, config, preTokenizer);
  if (type === 'WordPiece') return readWordPiece(guard, config);
  return fields.refuse('model.type', foundInFile(type), 'BPE, Unigram, WordPiece or WordLevel');
}

function readBpe(fields: Fields, config: JsonObject, preTokenizer: PreTokenizer): ReadModel {
  const vocabulary = readVocabulary(fields, config.vocab);
  const continuingPrefix = fields.replacement(
    'model.continuing_subword_prefix',
    config.continuing_subword_prefix ?? '',
  );
  const unknown = fields.optionalString('model.unk_token', config.unk_token);
  const merges = readMerges(fields, 'model.merges', config.merges, vocabulary, continuingPrefix.length);
  const tokens = invertVocabulary(fields, vocabulary);
  const wholePieceFirst = fields.flag('model.ignore_merges', config.ignore_merges, false);
  const bpe = new BpeModel({
    vocabulary,
    merges,
    unknownToken: unknown === undefined ? undefined : vocabulary.get(unknown),
    fuseUnknown: fields.flag('model.fuse_unk', config.fuse_unk, false),
    byteFallback: fields.flag('model.byte_fallback', config.byte_fallback, false),
    wholePieceFirst,
    continuingPrefix,
    endOfWordSuffix: fields.replacement('model.end_of_word_suffix', config.end_of_word_suffix ?? ''),
  });
  const cached = withAlphabet(bpe, preTokenizer);
  const independentWords =
    !wholePieceFirst && (config.end_of_word_suffix ?? '') === '' && continuingPrefix === '' && vocabulary.has('▁');
  const words =
    independentWords && !preTokenizer.byteLevelLast ? wordByWord(cached, mergedTokens(merges, tokens)) : undefined;
  return { vocabulary, tokens, model: words ?? cached };
}

/** Yields merges' tokens. */
export function* mergedTokens(merges: Int32Array, tokens: readonly (string | undefined)[]): Generator<string> {
  for (let at = 2; at < merges.length; at += 3) yield tokens[merges[at] ?? 0] ?? '';
}

function readUnigram(guard: Guard, config: JsonObject, preTokenizer: PreTokenizer): ReadModel {
  const { fields } = guard;
  const pieces = fields.array('model.vocab', config.vocab).map((item, id): [string, number] => {
    const [piece, score] = fields.array(`model.vocab[${id}]`, item);
    if (typeof score !== 'number' || !Number.isFinite(score))
      return fields.refuse(`model.vocab[${id}]`, foundInFile(score), 'a piece and its score');
    return [fields.tokenText(`model.vocab[${id}]`, piece), score];
  });
  const units = pieces.reduce((sum, [piece]) => sum + piece.length, 0);
  fields.atMost('model.vocab', units, TOKENIZER_LIMITS.unigramUnits, 'UTF-16 units in all pieces');
  if (pieces.length === 0) fields.refuse('model.vocab', 'no tokens', 'at least one');
  const unknownToken =
    config.unk_id === undefined || config.unk_id === null ? undefined : fields.tokenId('model.unk_id', config.unk_id);
  if (unknownToken !== undefined && unknownToken >= pieces.length)
    fields.refuse('model.unk_id', String(unknownToken), `an id below ${pieces.length}`);
  const vocabulary = new Map(pieces.map(([piece], id) => [piece, id] as const));
  const byteFallback = fields.flag('model.byte_fallback', config.byte_fallback, false);
  const model = new UnigramModel({ pieces, unknownToken, byteFallback, guard });
  return { vocabulary, tokens: pieces.map(([piece]) => piece), model: withAlphabet(model, preTokenizer) };
}

/** Longer words are unknown: a bound on what looking for pieces costs. */
const MOST_CHARACTERS = 1000;

function readWordPiece(guard: Guard, config: JsonObject): ReadModel {
  const { fields } = guard;
  const vocabulary = readVocabulary(fields, config.vocab);
  const unknown = fields.optionalString('model.unk_token', config.unk_token) ?? '[UNK]';
  const most: unknown = config.max_input_chars_per_word ?? 100;
  if (typeof most !== 'number' || !Number.isInteger(most) || most < 1 || most > MOST_CHARACTERS)
    return fields.refuse(
      'model.max_input_chars_per_word',
      foundInFile(most),
      `a whole number up to ${MOST_CHARACTERS}`,
    );
  const model = new WordPieceModel({
    vocabulary,
    unknownToken: vocabulary.get(unknown),
    continuingPrefix: fields.replacement('model.continuing_subword_prefix', config.continuing_subword_prefix ?? '##'),
    mostCharacters: most,
    guard,
  });
  return { vocabulary, tokens: invertVocabulary(fields, vocabulary), model: new CachedModel(model) };
}

function readWordLevel(fields: Fields, config: JsonObject, preTokenizer: PreTokenizer): ReadModel {
  const vocabulary = readVocabulary(fields, config.vocab);
  const unknown = fields.optionalString('model.unk_token', config.unk_token);
  const model = new WordLevelModel(vocabulary, unknown === undefined ? undefined : vocabulary.get(unknown));
  return { vocabulary, tokens: invertVocabulary(fields, vocabulary), model: withAlphabet(model, preTokenizer) };
}

/** Caches by the piece as cut from the text, and writes it in GPT-2's alphabet only on a miss. */
export function withAlphabet(model: TokenModel, preTokenizer: PreTokenizer): TokenModel {
  if (!preTokenizer.byteLevelLast) return new CachedModel(model);
  return new CachedModel({
    encode: (piece, out) => {
      model.encode(toByteLevel(piece), out);
    },
    *encodeInParts(piece, out) {
      const written = rewritten(piece, toByteLevel);
      yield* model.encodeInParts(typeof written === 'string' ? written : yield* written, out);
    },
  });
}

/**
 * The template of chat_template.jinja and those of additional_chat_templates, else those of tokenizer_config.json: one
 * text, or a list of named ones.
 */
function chatTemplate(
  guard: Guard,
  settings: TokenizerSettings,
  { chatTemplate: file, additionalChatTemplates: additional }: Extract<TokenizerSource, { kind: 'tokenizer.json' }>,
): ChatTemplate | undefined {
  const { fields, config } = settings;
  const sources = new Map<string, string>();
  const stated: unknown = file ?? (additional === undefined ? config.chat_template : undefined);
  if (Array.isArray(stated)) {
    for (const [i, item] of stated.entries()) {
      const named = fields.object(`chat_template[${i}]`, item);
      const name = fields.string(`chat_template[${i}].name`, named.name);
      sources.set(name, fields.string(`chat_template[${i}].template`, named.template));
    }
  } else if (stated !== undefined && stated !== null) sources.set('default', fields.string('chat_template', stated));
  for (const [name, source] of Object.entries(additional ?? {})) sources.set(name, source);
  if (sources.size === 0) return undefined;
  const variables: Record<string, string> = {};
  for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token', 'sep_token', 'cls_token', 'mask_token']) {
    const content = specialContent(settings, name);
    if (content !== undefined) variables[name] = content;
  }
  return new ChatTemplate(sources, variables, guard);
}
