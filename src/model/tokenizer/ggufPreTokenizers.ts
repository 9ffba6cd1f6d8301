import { DIGIT, GPT2, GPT4O, LLAMA3, PUNCTUATION_RUN, QWEN2, TEKKEN, THREE_DIGITS } from './patterns.js';

/** What a GGUF file's `tokenizer.ggml.pre` stands for, in tokenizer.json's terms. */
export interface GgufPreTokenizer {
  readonly normalizer: unknown;
  readonly preTokenizer: unknown;
  /** A piece that is a token as a whole is that token, whatever the merges say. */
  readonly wholePieceFirst: boolean;
  /** Whether the begin token is added where the file does not say. */
  readonly addBegin: boolean;
}

const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
const isolate = (Regex: string): unknown => ({
  type: 'Split',
  pattern: { Regex },
  behavior: 'Isolated',
  invert: false,
});
const sequence = (...patterns: string[]): unknown => ({
  type: 'Sequence',
  pretokenizers: [...patterns.map(isolate), bytes],
});

const plain = (preTokenizer: unknown): GgufPreTokenizer => ({
  normalizer: null,
  preTokenizer,
  wholePieceFirst: false,
  addBegin: false,
});
/** Families whose tokenizer.json normalizes to NFC; their GGUF files do not say so. */
const composed = (preTokenizer: unknown): GgufPreTokenizer => ({ ...plain(preTokenizer), normalizer: { type: 'NFC' } });

const gpt2 = plain(sequence(GPT2));
const digits = plain(sequence(DIGIT, GPT2));
const llama3: GgufPreTokenizer = { ...plain(sequence(LLAMA3)), wholePieceFirst: true, addBegin: true };
const dbrx = plain(sequence(LLAMA3));
const qwen2 = composed(sequence(QWEN2));
/** As Falcon's tokenizer.json has it, where the steps behind ByteLevel see GPT-2's alphabet. */
const falcon = plain({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Punctuation', behavior: 'Contiguous' },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    { type: 'Digits', individual_digits: false },
    isolate(THREE_DIGITS),
  ],
});

/** By the names that GGUF files give them. */
export const GGUF_PRE_TOKENIZERS: ReadonlyMap<string, GgufPreTokenizer> = new Map([
  ['default', plain(sequence(PUNCTUATION_RUN, GPT2, String.raw`\p{N}+`, THREE_DIGITS))],
  ['gpt-2', gpt2],
  ['phi-2', gpt2],
  ['mpt', gpt2],
  ['jina-v2-code', gpt2],
  ['roberta-bpe', gpt2],
  ['olmo', composed(sequence(GPT2))],
  ['smollm', digits],
  ['starcoder', digits],
  ['refact', digits],
  ['codeshell', digits],
  ['command-r', digits],
  ['falcon', falcon],
  ['llama3', llama3],
  ['llama-v3', llama3],
  ['llama-bpe', llama3],
  ['falcon3', llama3],
  ['dbrx', dbrx],
  ['smaug-bpe', dbrx],
  ['qwen2', qwen2],
  ['stablelm2', qwen2],
  ['deepseek-r1-qwen', qwen2],
  ['tekken', { ...plain(sequence(TEKKEN)), wholePieceFirst: true, addBegin: true }],
  ['gpt-4o', plain(sequence(GPT4O))],
]);
