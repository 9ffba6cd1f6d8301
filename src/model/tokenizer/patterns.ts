/**
 * The pre-tokenizers' regular expressions that the model families share, in Oniguruma's syntax. All of them run in time
 * linear in the text: no quantifier stands over a part that can match the same text in two ways.
 */
export const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

const contractions = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
const tail = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

export const LLAMA3 = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|${tail}`;
export const QWEN2 = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|${tail}`;

const upper = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const lower = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const slashTail = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

export const TEKKEN = String.raw`[^\r\n\p{L}\p{N}]?${upper}*${lower}+|[^\r\n\p{L}\p{N}]?${upper}+${lower}*|\p{N}|${slashTail}`;
export const GPT4O = String.raw`[^\r\n\p{L}\p{N}]?${upper}*${lower}+${contractions}?|[^\r\n\p{L}\p{N}]?${upper}+${lower}*${contractions}?|\p{N}{1,3}|${slashTail}`;

export const DIGIT = String.raw`\p{N}`;
export const THREE_DIGITS = '[0-9][0-9][0-9]';
/** Punctuation as GGUF's `default` pre-tokenizer isolates it. */
export const PUNCTUATION_RUN = String.raw`[\p{P}\$\+<=>\^~\|]+`;
