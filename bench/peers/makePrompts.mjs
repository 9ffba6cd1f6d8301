// Prompts for the comparison: passages of Moby-Dick of 20 to 250 tokens, the same ones on every machine.
// Usage: node bench/peers/makePrompts.mjs FILE [ROWS]
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { seededRandom } from '../../scripts/nightly/lib/random.mjs';
import { mobyDickWords } from './mobyDick.mjs';

/** Words a prompt has; SmolLM2's tokenizer makes 1.2 to 1.7 tokens of a word of this text. */
const SHORTEST_WORDS = 16;
const LONGEST_WORDS = 150;

/**
 * @param {number} [wordsOfEach] instead of lengths that are spread evenly between the bounds
 * @returns rows {id, prompt}: passages that begin at even distances through the book; long ones overlap, and begin
 * unlike all the same
 */
export function makePrompts(rows, wordsOfEach) {
  const words = mobyDickWords();
  const random = seededRandom(20_26).next;
  const stride = Math.floor((words.length - (wordsOfEach ?? LONGEST_WORDS)) / rows);
  return Array.from({ length: rows }, (_, row) => {
    const length = wordsOfEach ?? SHORTEST_WORDS + Math.floor(random() * (LONGEST_WORDS - SHORTEST_WORDS + 1));
    return { id: row + 1, prompt: words.slice(row * stride, row * stride + length).join(' ') };
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, rows = '256'] = process.argv.slice(2);
  if (file === undefined || !/^[1-9]\d{0,5}$/.test(rows)) {
    process.stderr.write('usage: node bench/peers/makePrompts.mjs FILE [ROWS]\n');
    process.exit(1);
  }
  writeFileSync(file, makePrompts(Number(rows)).map((row) => `${JSON.stringify(row)}\n`).join(''));
}
