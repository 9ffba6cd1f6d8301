import * as patterns from './patterns.js';

const { DIGIT, GPT2, GPT4O, LLAMA3, PUNCTUATION_RUN, QWEN2, TEKKEN, THREE_DIGITS } = patterns;

/** The meaning of a GGUF file's `tokenizer.ggml.pre`, in tokenizer.json's terms. */
export interface GgufPreTokenizer {
  readonly normalizer: unknown;
  readonly preTokenizer: unknown;
  /** A piece that is a token as a whole is that token, whatever the merges say. */
  readonly wholePieceFirst: boolean;
  /** True if the begin token is added where the file does not say. */
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
/** As LLaMA 3's, without its begin token. */
const glm4 = { ...dbrx, wholePieceFirst: true };
const gpt4o = plain(sequence(GPT4O));
const deepseek3 = plain(sequence(patterns.THREE_NUMBERS, patterns.EAST_ASIAN, patterns.DEEPSEEK3));
const bloom = plain(sequence(patterns.BLOOM));
const bailing = plain(sequence(patterns.BAILING));
const cohere2 = plain(sequence(patterns.THREES, GPT4O));
/** As Falcon's tokenizer.json has it, where the steps after ByteLevel see GPT-2's alphabet. */
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
  ['jina-v1-en', gpt2],
  ['jina-es', gpt2],
  ['jina-de', gpt2],
  ['jina-v2-es', gpt2],
  ['jina-v2-de', gpt2],
  ['gigachat', gpt2],
  ['a.x-4.0', gpt2],
  ['mellum', gpt2],
  ['modern-bert', gpt2],
  ['exaone4', gpt2],
  ['jais', gpt2],
  ['trillion', gpt2],
  ['granite-docling', gpt2],
  ['olmo', composed(sequence(GPT2))],
  ['smollm', digits],
  ['starcoder', digits],
  ['refact', digits],
  ['codeshell', digits],
  ['command-r', digits],
  ['exaone', digits],
  ['minerva-7b', digits],
  ['mellum2', digits],
  ['falcon', falcon],
  ['llama3', llama3],
  ['llama-v3', llama3],
  ['llama-bpe', llama3],
  ['falcon3', llama3],
  ['falcon-h1', llama3],
  ['pixtral', llama3],
  ['midm-2.0', llama3],
  ['lfm2', llama3],
  ['jina-v5-nano', llama3],
  ['dbrx', dbrx],
  ['smaug-bpe', dbrx],
  ['chatglm-bpe', dbrx],
  ['glm4', glm4],
  ['glm5', glm4],
  ['qwen2', qwen2],
  ['stablelm2', qwen2],
  ['deepseek-r1-qwen', qwen2],
  ['kormo', qwen2],
  ['f2llmv2', qwen2],
  ['megrez', qwen2],
  ['qwen35', composed(sequence(patterns.QWEN35))],
  ['hunyuan', plain(sequence(QWEN2))],
  ['solar-open', plain(sequence(QWEN2))],
  ['grok-2', plain(sequence(QWEN2))],
  ['laguna', plain(sequence(patterns.LINES, QWEN2))],
  ['ufakzeka', plain(sequence(patterns.WITHOUT_CONTRACTIONS))],
  ['minicpm5', { ...plain(sequence(patterns.THREE_NUMBERS, patterns.MINICPM5)), wholePieceFirst: true }],
  ['seed-coder', plain(sequence(patterns.SEED_CODER))],
  ['bailingmoe', bailing],
  ['bailingmoe2', bailing],
  ['llada-moe', bailing],
  ['exaone-moe', plain(sequence(patterns.EXAONE_MOE))],
  ['jais-2', plain(sequence(patterns.JAIS2))],
  [
    'deepseek-llm',
    plain(
      sequence(
        patterns.LINE_END,
        patterns.DEEPSEEK_WORDS,
        patterns.DEEPSEEK_SIGNS,
        patterns.LAST_BLANKS,
        patterns.DEEPSEEK_CJK,
        patterns.NUMBER_RUN,
      ),
    ),
  ],
  ['deepseek-coder', plain(sequence(patterns.LINE_END, patterns.WORDS, patterns.SIGNS, patterns.DEEPSEEK_CJK, DIGIT))],
  ['deepseek-v3', deepseek3],
  ['hunyuan-dense', deepseek3],
  ['joyai-llm', deepseek3],
  ['hy_v4', deepseek3],
  ['spark2_5', plain(sequence(patterns.THREE_NUMBERS, patterns.EAST_ASIAN, patterns.SPARK, DIGIT))],
  ['youtu', { ...plain(sequence(patterns.YOUTU_SCRIPTS, patterns.YOUTU)), wholePieceFirst: true }],
  ['kimi-k2', plain(sequence(patterns.KIMI))],
  ['poro-chat', bloom],
  ['bloom', bloom],
  ['gpt3-finnish', bloom],
  ['viking', plain(sequence(patterns.BLOOM, DIGIT))],
  ['tiny_aya', cohere2],
  ['cohere2moe', cohere2],
  ['tekken', { ...plain(sequence(TEKKEN)), wholePieceFirst: true, addBegin: true }],
  ['gpt-4o', gpt4o],
  ['llama4', gpt4o],
  ['kanana2', gpt4o],
  ['talkie', gpt4o],
  ['minimax-m2', gpt4o],
  ['granite-embed-multi-97m', { ...gpt4o, wholePieceFirst: true }],
]);
