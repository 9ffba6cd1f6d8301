import type { Json, JsonObject } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { pattern } from './patterns.js';
import { mutatedTemplate } from './templates.js';
import { at, changedAt, edited, mutatedTree } from './tree.js';
import { number, text, word } from './values.js';

const BEHAVIORS = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];
const SCHEMES = ['always', 'first', 'never'];

function anyPattern(random: Random): Json {
  return random.chance(0.7) ? { Regex: pattern(random) } : { String: word(random) };
}

/** Many equal literal steps, each of them harmless: what they cost is what they cost together. */
function equalSteps(random: Random): JsonObject[] {
  const replace = (content: string): JsonObject => ({
    type: 'Replace',
    pattern: { String: random.pick(['a', 'b', ' ', 'e', 'Ġ', '▁']) },
    content,
  });
  const step = replace(random.pick(['a', 'aa', 'aaaa', 'a'.repeat(64), word(random), '']));
  return [
    ...random.list(0, 1, () => replace('a'.repeat(64))),
    ...Array.from({ length: random.pick([8, 12, 20, 62]) }, () => step),
    ...random.list(0, 1, () => replace('')),
  ];
}

/** A program of one step or, now and then, of several. */
function program(random: Random, list: string, step: () => Json, depth = 0): Json {
  if (depth > 2 || random.chance(0.6)) return step();
  const many = random.chance(0.12);
  if (many && list !== 'pretokenizers' && list !== 'processors' && random.chance(0.6))
    return { type: 'Sequence', [list]: equalSteps(random) };
  return { type: 'Sequence', [list]: random.list(0, many ? 80 : 4, () => program(random, list, step, depth + 1)) };
}

function normalizer(random: Random): Json {
  return program(random, 'normalizers', () =>
    random.pick<() => Json>([
      () => ({
        type: random.pick([
          'NFC',
          'NFD',
          'NFKC',
          'NFKD',
          'Lowercase',
          'StripAccents',
          'Nmt',
          'BertNormalizer',
          'Unknown',
        ]),
      }),
      () => ({ type: 'Strip', strip_left: random.chance(0.5), strip_right: random.chance(0.8) }),
      () => ({ type: 'Prepend', prepend: random.chance(0.8) ? word(random) : text(random) }),
      () => ({
        type: 'Replace',
        pattern: anyPattern(random),
        content: random.chance(0.8) ? word(random) : text(random),
      }),
      () => ({
        type: 'Precompiled',
        precompiled_charsmap: random.pick(['', 'AAAA', word(random), charactersMap(random)]),
      }),
    ])(),
  );
}

/** A map whose trie and texts are anything. */
function charactersMap(random: Random): string {
  const nodes = 1 + random.below(300);
  const bytes = Buffer.from(
    Array.from({ length: 4 + 4 * nodes + 40 }, () => random.below(random.chance(0.3) ? 2 : 256)),
  );
  bytes.writeUInt32LE(4 * nodes);
  return bytes.toString('base64');
}

function preTokenizer(random: Random): Json {
  return program(random, 'pretokenizers', () =>
    random.pick<() => Json>([
      () => ({ type: 'ByteLevel', add_prefix_space: random.chance(0.5), use_regex: random.chance(0.5) }),
      () => ({
        type: 'Split',
        pattern: anyPattern(random),
        behavior: random.pick(BEHAVIORS),
        invert: random.chance(0.3),
      }),
      () => ({
        type: 'Split',
        pattern: anyPattern(random),
        behavior: random.pick(BEHAVIORS),
        invert: random.chance(0.3),
      }),
      () => ({ type: 'Digits', individual_digits: random.chance(0.5) }),
      () => ({ type: 'Punctuation', behavior: random.pick(BEHAVIORS) }),
      () => ({
        type: 'Metaspace',
        replacement: random.chance(0.7) ? '▁' : word(random),
        prepend_scheme: random.pick(SCHEMES),
        split: random.chance(0.5),
      }),
      () => ({ type: random.pick(['Whitespace', 'WhitespaceSplit', 'BertPreTokenizer', 'UnicodeScripts', 'Unknown']) }),
      () => ({ type: 'CharDelimiterSplit', delimiter: word(random) }),
    ])(),
  );
}

function decoder(random: Random): Json {
  return program(random, 'decoders', () =>
    random.pick<() => Json>([
      () => ({ type: random.pick(['ByteLevel', 'ByteFallback', 'Fuse', 'WordPiece', 'BPEDecoder', 'CTC', 'Unknown']) }),
      () => ({ type: random.pick(['ByteLevel', 'ByteFallback', 'Fuse']) }),
      () => ({
        type: 'Metaspace',
        replacement: random.chance(0.7) ? '▁' : word(random),
        prepend_scheme: random.pick(SCHEMES),
      }),
      () => ({
        type: 'Replace',
        pattern: anyPattern(random),
        content: random.chance(0.8) ? word(random) : text(random),
      }),
      () => ({
        type: 'Strip',
        content: word(random),
        start: random.pick([0, 1, 2, 1000]),
        stop: random.pick([0, 1, 2, 1000]),
      }),
    ])(),
  );
}

function postProcessor(random: Random): Json {
  const id = word(random);
  return program(random, 'processors', () =>
    random.pick<() => Json>([
      () => ({ type: 'ByteLevel' }),
      () => ({
        type: random.pick(['BertProcessing', 'RobertaProcessing']),
        cls: [word(random), random.below(260)],
        sep: [word(random), random.below(260)],
      }),
      () => ({
        type: 'TemplateProcessing',
        single: random.list(0, 4, () =>
          random.chance(0.5) ? { Sequence: { id: 'A', type_id: 0 } } : { SpecialToken: { id, type_id: 0 } },
        ),
        special_tokens: {
          [id]: { id, ids: random.list(0, random.chance(0.1) ? 70 : 2, () => random.below(260)), tokens: [id] },
        },
      }),
    ])(),
  );
}

function addedToken(random: Random, tokens: readonly string[]): Json {
  const flag = (): boolean => random.chance(0.3);
  const content = random.weighted([
    [3, () => word(random)],
    [2, () => random.pick(['a', ...tokens])],
    [1, () => text(random)],
  ])();
  return {
    id: random.chance(0.9) ? random.below(300) : number(random),
    content,
    single_word: flag(),
    lstrip: flag(),
    rstrip: flag(),
    normalized: random.chance(0.5),
    special: flag(),
  };
}

/** tokenizer.json with one of its parts replaced by another that may well be right, or with any place changed. */
export function mutatedTokenizer(random: Random, tokenizer: Json): Json {
  const put = (path: readonly string[], value: Json): Json => changedAt(tokenizer, path, () => value);
  return random.weighted<() => Json>([
    [4, () => put(['normalizer'], normalizer(random))],
    [5, () => put(['pre_tokenizer'], preTokenizer(random))],
    [5, () => put(['decoder'], decoder(random))],
    [2, () => put(['post_processor'], postProcessor(random))],
    [
      4,
      () =>
        changedAt(tokenizer, ['added_tokens'], (list) => [
          ...(Array.isArray(list) ? (list as readonly Json[]) : []),
          ...random.list(1, 5, () => addedToken(random, tokensOf(tokenizer))),
        ]),
    ],
    [3, () => changedAt(tokenizer, ['model', 'vocab'], (vocab) => mutatedVocabulary(random, vocab))],
    [
      3,
      () => changedAt(tokenizer, ['model', 'merges'], (merges) => mutatedMerges(random, merges, tokensOf(tokenizer))),
    ],
    [
      2,
      () =>
        changedAt(
          tokenizer,
          ['model', random.pick(['unk_token', 'continuing_subword_prefix', 'end_of_word_suffix', 'type', 'unk_id'])],
          () =>
            random.pick<Json>([null, word(random), 0, random.below(300), 'BPE', 'Unigram', 'WordLevel', 'WordPiece']),
        ),
    ],
    [
      2,
      () =>
        changedAt(tokenizer, ['model', random.pick(['byte_fallback', 'fuse_unk', 'ignore_merges', 'dropout'])], () =>
          random.pick<Json>([true, false, null, 0.1]),
        ),
    ],
    [2, () => mutatedTree(random, tokenizer)],
  ])();
}

function tokensOf(tokenizer: Json): string[] {
  const vocabulary = at(tokenizer, ['model', 'vocab']);
  return typeof vocabulary === 'object' && vocabulary !== null && !Array.isArray(vocabulary)
    ? Object.keys(vocabulary)
    : [];
}

/** Token texts and ids that are missing, doubled, swapped, or far away. */
function mutatedVocabulary(random: Random, vocabulary: Json | undefined): Json {
  if (Array.isArray(vocabulary))
    return random.chance(0.7)
      ? [
          ...(vocabulary as readonly Json[]),
          ...random.list(1, 4, () => [text(random), random.pick([0, -1, -1e300, 1e300, -5])]),
        ]
      : mutatedTree(random, vocabulary as readonly Json[]);
  const entries = Object.entries((vocabulary ?? {}) as JsonObject);
  const index = random.below(entries.length);
  const [name = 'a', id = 0] = entries[index] ?? [];
  return random.weighted<() => Json>([
    [
      3,
      () => Object.fromEntries([...entries, [text(random), random.chance(0.8) ? random.below(300) : number(random)]]),
    ],
    [3, () => Object.fromEntries(entries.filter((_, each) => each !== index))],
    [2, () => Object.fromEntries([...entries, [name, entries[random.below(entries.length)]?.[1] ?? 0]])],
    [2, () => Object.fromEntries([...entries.filter((_, each) => each !== index), [edited(random, name), id]])],
    [
      1,
      () => Object.fromEntries(entries.map(([each, value]) => [each, Number(value) + random.pick([1, 1000, 2 ** 21])])),
    ],
    [1, () => Object.fromEntries(entries.slice(0, random.below(entries.length + 1)))],
  ])();
}

function mutatedMerges(random: Random, merges: Json | undefined, tokens: readonly string[]): Json {
  const list = Array.isArray(merges) ? (merges as readonly Json[]) : [];
  const token = (): string => random.pick(['a', 'b', ...tokens]);
  return random.weighted<() => Json>([
    [
      3,
      () => [...list, ...random.list(1, 5, () => (random.chance(0.5) ? `${token()} ${token()}` : [token(), token()]))],
    ],
    [2, () => [...list].reverse()],
    [2, () => list.slice(0, random.below(list.length + 1))],
    [
      1,
      () => [
        ...list,
        random.pick<Json>(['', ' ', 'a', 'a b c', ['a'], ['a', 1], null, 1, `${word(random)} ${word(random)}`]),
      ],
    ],
    [1, () => [...list, ...list]],
  ])();
}

const SPECIAL = ['bos_token', 'eos_token', 'unk_token', 'pad_token', 'cls_token'];

/** tokenizer_config.json, its chat template above all. */
export function mutatedTokenizerConfig(random: Random, config: Json): Json {
  return random.weighted<() => Json>([
    [8, () => changedAt(config, ['chat_template'], (template) => mutatedTemplates(random, template))],
    [
      2,
      () =>
        changedAt(config, [random.pick(SPECIAL)], () =>
          random.pick<Json>([word(random), null, { content: word(random) }, text(random)]),
        ),
    ],
    [
      1,
      () =>
        changedAt(config, [random.pick(['add_bos_token', 'add_eos_token'])], () =>
          random.pick<Json>([true, false, null, 1]),
        ),
    ],
    [
      1,
      () =>
        changedAt(config, ['added_tokens_decoder'], () =>
          Object.fromEntries(random.list(1, 4, () => [String(random.below(300)), addedToken(random, [])] as const)),
        ),
    ],
    [
      1,
      () =>
        changedAt(config, [random.pick(['additional_special_tokens', 'extra_special_tokens'])], () =>
          random.list(0, 4, () => word(random)),
        ),
    ],
    [2, () => mutatedTree(random, config)],
  ])();
}

function mutatedTemplates(random: Random, template: Json | undefined): Json {
  if (typeof template === 'string') return mutatedTemplate(random, template);
  const first = at(template ?? null, [0, 'template']);
  if (random.chance(0.2))
    return [{ name: word(random), template: mutatedTemplate(random, typeof first === 'string' ? first : '') }];
  return typeof first === 'string'
    ? changedAt(template ?? null, [0, 'template'], () => mutatedTemplate(random, first))
    : mutatedTemplate(random, '{{ messages }}');
}
