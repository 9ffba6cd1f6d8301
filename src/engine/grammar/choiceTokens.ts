import type { Tokenizer } from '../../model/Tokenizer.js';
import type { Work } from '../../collections/drained.js';
import { ChoiceTree, type ChoiceTokens } from './ChoiceTree.js';

/**
 * Choices by their tokens, as labels have them: those of each text by itself. Text of a control token is text. None
 * where one of them is no token at all.
 */
export function* choiceTree(
  choices: readonly string[],
  tokenizer: Pick<Tokenizer, 'encodeInParts' | 'endTokens'>,
): Work<ChoiceTree | undefined> {
  const [end] = tokenizer.endTokens;
  const all: ChoiceTokens[] = [];
  for (const text of choices) {
    const made = tokenizer.encodeInParts(text, { specialTokens: false, parseSpecial: false, continues: true });
    all.push({ text, tokens: 'next' in made ? yield* made : made });
    yield;
  }
  if (end === undefined && all.some(({ tokens }) => tokens.length === 0)) return undefined;
  return yield* ChoiceTree.of(all, end);
}
