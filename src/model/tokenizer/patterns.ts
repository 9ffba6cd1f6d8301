/**
 * The pre-tokenizers' regular expressions that the model families share, in Oniguruma's syntax. Nearly all of them
 * run in time linear in the text: no quantifier stands over a part that can match the same text in two ways. Others are
 * matched by counted steps (`compilePattern`).
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

/** Qwen 3.5's: marks belong to letters. */
export const QWEN35 = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

/** Han, Hiragana and Katakana, as DeepSeek's tokenizers isolate them, and the words between. */
export const EAST_ASIAN = '[一-龥぀-ゟ゠-ヿ]+';
const signed = String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_\x60{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+`;
export const DEEPSEEK3 = String.raw`${signed}[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
export const SPARK = String.raw`${signed}|[\r\n]|\s+(?!\S)|\s+`;
export const THREE_NUMBERS = String.raw`\p{N}{1,3}`;
export const NUMBER_RUN = String.raw`\p{N}+`;

/** The first DeepSeek's: what is split off one after another. */
export const LINE_END = '[\\r\\n]';
// No raw strings: a bundler escapes what is not ASCII in all others, and V8 reads ASCII in half the memory.
export const DEEPSEEK_WORDS =
  '\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+';
export const DEEPSEEK_SIGNS = '\\s?[!-/:-~！-／：-～‘-‟　-。]+';
export const LAST_BLANKS = String.raw`\s+$`;
export const DEEPSEEK_CJK = '[一-龥ࠀ-一가-퟿]+';
export const WORDS = String.raw`\s?\p{L}+`;
export const SIGNS = String.raw`\s?\p{P}+`;

export const YOUTU_SCRIPTS = '[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+';
export const YOUTU = String.raw`[^\r\n\p{L}\p{N}]?${upper}*${lower}+${contractions}?|[^\r\n\p{L}\p{N}]?${upper}+${lower}*${contractions}?|\p{N}|${slashTail}`;

/** Kimi's: Han by itself, no Han in other words. */
const notHan = (set: string): string => String.raw`(?:(?!\p{Han})${set})`;
export const KIMI = String.raw`\p{Han}+|[^\r\n\p{L}\p{N}]?${notHan(upper)}*${notHan(lower)}+${contractions}?|[^\r\n\p{L}\p{N}]?${notHan(upper)}+${notHan(lower)}*${contractions}?|\p{N}{1,3}|${tail}`;

export const BLOOM = ' ?[^(\\s|.,!?…。，、।۔،)]+';
export const BAILING = String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`;
export const SEED_CODER = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`;
/** A run of digits from the right, by threes. */
export const THREES = String.raw`\d{1,3}(?=(?:\d{3})*\b)`;
export const MINICPM5 = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|${tail}`;
export const EXAONE_MOE = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`;
/** Blanks by powers of two. */
const blanks = [512, 256, 128, 64, 32, 16, 8, 4].map((count) => String.raw`\s{${count}}(?!\S)`).join('|');
export const JAIS2 = String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|${blanks}|\s{1,2}(?!\S)|\s{1}`;
export const WITHOUT_CONTRACTIONS = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|${tail}`;
export const LINES = String.raw`[^\n]+|[\n]+`;
