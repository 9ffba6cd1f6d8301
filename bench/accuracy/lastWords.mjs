// Last words to be guessed, as LAMBADA has them (Paperno et al., 2016): each ends a sentence, and has been said before in
// the passage that leads to it, so that who has read that can tell.
const PASSAGE_WORDS = 300;
/** Shorter words, and those that are every thousandth of a text, are mostly such that say nothing of what was read. */
const LEAST_LETTERS = 5;
const COMMON = 1e-3;

/** The letters of a word, without quotes and the like around them. */
const bare = (word) => word.replace(/^[^\p{L}]+|[^\p{L}]+$/gu, '').toLowerCase();

/**
 * Passages that do not overlap, from the first word on.
 * @param words of a text
 * @returns at most `count` of {prompt, word}
 */
export function lastWords(words, count) {
  const said = new Map();
  for (const word of words) said.set(bare(word), (said.get(bare(word)) ?? 0) + 1);
  const found = [];
  for (let at = PASSAGE_WORDS; at < words.length && found.length < count; at++) {
    const word = words[at];
    if (!/^\p{Ll}+[.!?]["”’']*$/u.test(word) || bare(word).length < LEAST_LETTERS) continue;
    if (said.get(bare(word)) > COMMON * words.length) continue;
    const passage = words.slice(at - PASSAGE_WORDS, at);
    if (!passage.some((each) => bare(each) === bare(word))) continue;
    found.push({ prompt: passage.join(' '), word: bare(word) });
    at += PASSAGE_WORDS;
  }
  return found;
}

/** Whether an answer begins with the word. */
export function isRight(answer, word) {
  return bare(answer.trim().split(/[\s.,;:!?—-]/u)[0]) === word;
}
