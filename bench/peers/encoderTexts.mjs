// Texts of mixed lengths for encoders: passages of Moby-Dick, of 5 to 500 tokens, half of them under 60.
import { seededRandom } from '../../scripts/nightly/lib/random.mjs';
import { mobyDickWords } from './mobyDick.mjs';

/** Lengths in tokens whose logarithms are normal. */
function drawnLengths(count, random) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  return Array.from({ length: count }, () => Math.min(500, Math.max(5, Math.round(60 * Math.exp(0.9 * normal())))));
}

/** @returns {string[]} passages of about so many tokens: English words have some 1.3 */
export function drawnTexts(count, seed) {
  const words = mobyDickWords();
  const random = seededRandom(seed);
  return drawnLengths(count, random).map((tokens) => {
    const length = Math.max(3, Math.round(tokens / 1.3));
    const first = random.whole(0, words.length - length);
    return words.slice(first, first + length).join(' ');
  });
}
