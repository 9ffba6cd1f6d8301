import { readFileSync } from 'node:fs';
import type { GgufValue } from '../../model/support/GgufWriter.js';
import type { Json, JsonObject } from './ModelImage.js';
import { ggufValue } from './readImages.js';

/** What a model says of its tokenizer, for both formats; one of the two may be missing. */
export interface TokenizerImage {
  readonly name: string;
  /** tokenizer.json and tokenizer_config.json. */
  readonly folder?: { readonly tokenizer: JsonObject; readonly config: JsonObject };
  readonly gguf?: readonly (readonly [key: string, value: GgufValue])[];
  /** Ids that the model must have. */
  readonly vocabularySize: number;
}

const FIXTURES = new URL('../../fixtures/tokenizers/', import.meta.url);

/** Chat templates of the kinds that real models have. */
export const TEMPLATES: readonly string[] = Object.values(
  (read('chats') as { templates: Record<string, { template: string }> }).templates,
).map(({ template }) => template);

function read(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FIXTURES), 'utf8'));
}

/** Cut down from real models' tokenizers, some 600 to 1,000 tokens each. */
export function realTokenizers(): TokenizerImage[] {
  return [
    'falcon',
    'gemma',
    'gpt-neox',
    'llama2',
    'llama3',
    'mistral',
    'opt',
    'qwen2',
    'smollm',
    'tekken',
    'unigram',
    'added-tokens',
  ].map((name, index) => {
    const { tokenizer, config, gguf } = read(name) as {
      tokenizer: JsonObject;
      config: JsonObject;
      gguf?: Record<string, unknown>;
    };
    const template = TEMPLATES[index % TEMPLATES.length] ?? '';
    const { vocab } = tokenizer['model'] as { vocab: readonly Json[] | JsonObject };
    const added = (tokenizer['added_tokens'] ?? []) as readonly { id: number }[];
    return {
      name,
      folder: { tokenizer, config: { chat_template: template, ...config } },
      ...(gguf && { gguf: metadata({ ...gguf, 'tokenizer.chat_template': template }) }),
      vocabularySize: Math.max(Object.keys(vocab).length, ...added.map(({ id }) => id + 1)),
    };
  });
}

function metadata(values: Readonly<Record<string, unknown>>): (readonly [string, GgufValue])[] {
  return Object.entries(values).map(([key, value]) => [key, ggufValue(value)] as const);
}

const MERGED = [
  'Ġt',
  'he',
  'in',
  're',
  'Ġa',
  'an',
  'Ġthe',
  'er',
  'on',
  'Ġs',
  'at',
  'en',
  'nd',
  'ou',
  'is',
  'or',
  'es',
  'ing',
  'ĠĠ',
  'th',
];
/** As GPT-2 writes bytes: the printable ones as themselves, the others from U+0100 on. */
const BYTES = [
  ...Array.from({ length: 94 }, (_, i) => String.fromCodePoint(33 + i)),
  ...Array.from({ length: 94 }, (_, i) => String.fromCodePoint(0x100 + i)),
];

/** Every way of cutting a word of `vocabulary` in two pieces of it: a merge each. */
function mergesOf(words: readonly string[], vocabulary: readonly string[]): [string, string][] {
  return words.flatMap((word) => {
    const at = Array.from({ length: word.length - 1 }, (_, i) => i + 1).find(
      (cut) => vocabulary.includes(word.slice(0, cut)) && vocabulary.includes(word.slice(cut)),
    );
    return at === undefined ? [] : [[word.slice(0, at), word.slice(at)] as [string, string]];
  });
}

function added(contents: readonly string[]): Json[] {
  return contents.map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }));
}

/** Tokenizers of each kind with fewer than 256 tokens, as many as the tiny models have. */
export function smallTokenizers(): TokenizerImage[] {
  return [byteLevel(), sentencePiece(), unigram(), wordLevel()];
}

function byteLevel(): TokenizerImage {
  const special = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
  const tokens = [...special, ...BYTES, ...MERGED];
  const merges = mergesOf(MERGED, tokens).map((pair) => pair.join(' '));
  const template = TEMPLATES[0] ?? '';
  return {
    name: 'byte-level',
    vocabularySize: tokens.length,
    folder: {
      tokenizer: {
        version: '1.0',
        added_tokens: added(special),
        normalizer: { type: 'NFC' },
        pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
        post_processor: {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: '<|endoftext|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [],
          special_tokens: { '<|endoftext|>': { id: '<|endoftext|>', ids: [0], tokens: ['<|endoftext|>'] } },
        },
        decoder: { type: 'ByteLevel' },
        model: {
          type: 'BPE',
          unk_token: null,
          vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
          merges,
        },
      },
      config: { eos_token: '<|im_end|>', bos_token: '<|endoftext|>', chat_template: template },
    },
    gguf: metadata({
      'tokenizer.ggml.model': 'gpt2',
      'tokenizer.ggml.pre': 'smollm',
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.token_type': tokens.map((_, id) => (id < special.length ? 3 : 1)),
      'tokenizer.ggml.merges': merges,
      'tokenizer.ggml.eos_token_id': 2,
      'tokenizer.ggml.bos_token_id': 0,
      'tokenizer.ggml.add_bos_token': true,
      'tokenizer.chat_template': template,
    }),
  };
}

function sentencePiece(): TokenizerImage {
  const special = ['<unk>', '<s>', '</s>'];
  const bytes = Array.from({ length: 64 }, (_, byte) => `<0x${(byte + 128).toString(16).toUpperCase()}>`);
  const letters = ['▁', ...Array.from({ length: 94 }, (_, i) => String.fromCodePoint(33 + i)), 'é', '\n'];
  const merged = MERGED.map((token) => token.replaceAll('Ġ', '▁'));
  const tokens = [...special, ...bytes, ...letters, ...merged];
  const merges = mergesOf(merged, tokens);
  const template = TEMPLATES[1] ?? '';
  const types = tokens.map((_, id) =>
    id === 0 ? 2 : id < special.length ? 3 : id < special.length + bytes.length ? 6 : 1,
  );
  return {
    name: 'sentencepiece',
    vocabularySize: tokens.length,
    folder: {
      tokenizer: {
        version: '1.0',
        added_tokens: added(special),
        normalizer: {
          type: 'Sequence',
          normalizers: [
            { type: 'Prepend', prepend: '▁' },
            { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
          ],
        },
        pre_tokenizer: null,
        post_processor: null,
        decoder: {
          type: 'Sequence',
          decoders: [
            { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
            { type: 'ByteFallback' },
            { type: 'Fuse' },
            { type: 'Strip', content: ' ', start: 1, stop: 0 },
          ],
        },
        model: {
          type: 'BPE',
          unk_token: '<unk>',
          fuse_unk: true,
          byte_fallback: true,
          vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
          merges,
        },
      },
      config: {
        bos_token: '<s>',
        eos_token: { content: '</s>' },
        unk_token: '<unk>',
        add_bos_token: true,
        add_eos_token: false,
        chat_template: template,
      },
    },
    gguf: metadata({
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.scores': Float32Array.from(tokens, (_, id) => -id),
      'tokenizer.ggml.token_type': types,
      'tokenizer.ggml.bos_token_id': 1,
      'tokenizer.ggml.eos_token_id': 2,
      'tokenizer.ggml.unknown_token_id': 0,
      'tokenizer.ggml.add_space_prefix': true,
      'tokenizer.chat_template': template,
    }),
  };
}

function unigram(): TokenizerImage {
  const pieces = [
    '<unk>',
    '</s>',
    '▁',
    ...Array.from({ length: 94 }, (_, i) => String.fromCodePoint(33 + i)),
    ...MERGED.map((token) => token.replaceAll('Ġ', '▁')),
  ];
  return {
    name: 'unigram',
    vocabularySize: pieces.length,
    folder: {
      tokenizer: {
        added_tokens: added(['<unk>', '</s>']),
        normalizer: { type: 'Precompiled', precompiled_charsmap: '' },
        pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
        post_processor: null,
        decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
        model: {
          type: 'Unigram',
          unk_id: 0,
          vocab: pieces.map((piece, id) => [piece, -0.1 * id]),
          byte_fallback: false,
        },
      },
      config: {
        eos_token: '</s>',
        unk_token: '<unk>',
        chat_template: [
          { name: 'default', template: TEMPLATES[2] ?? '' },
          { name: 'tool_use', template: '' },
        ],
      },
    },
  };
}

function wordLevel(): TokenizerImage {
  const words = ['<unk>', '</s>', 'the', 'a', 'Hello', 'world', 'of', 'user', 'assistant', '.', ',', '!'];
  return {
    name: 'word-level',
    vocabularySize: words.length,
    folder: {
      tokenizer: {
        added_tokens: added(['<unk>', '</s>']),
        normalizer: { type: 'Lowercase' },
        pre_tokenizer: { type: 'Whitespace' },
        post_processor: null,
        decoder: null,
        model: {
          type: 'WordLevel',
          unk_token: '<unk>',
          vocab: Object.fromEntries(words.map((piece, id) => [piece, id])),
        },
      },
      config: { eos_token: '</s>', unk_token: '<unk>', chat_template: TEMPLATES[0] ?? '' },
    },
  };
}
