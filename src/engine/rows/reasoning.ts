import type { ReasoningMarks, Tokenizer } from '../../model/Tokenizer.js';

/** Tokens at the end of a prompt in which a mark may stand that opens the reasoning. */
const LAST_TOKENS = 32;

/** Tells whether the prompt ends inside of the model's reasoning: chat templates of some models open it themselves. */
export function endsReasoning(prompt: readonly number[], { start }: ReasoningMarks, tokenizer: Tokenizer): boolean {
  return tokenizer.decode(prompt.slice(-LAST_TOKENS), { skipSpecial: false }).trimEnd().endsWith(start);
}

/**
 * A text in which marks stand round what the model reasoned first, in its parts, without the marks and the white space
 * round them. Pure.
 * @param open whether the reasoning began before the text
 */
export function splitReasoning(
  text: string,
  { start, end }: ReasoningMarks,
  open: boolean,
): { readonly reasoning?: string; readonly text: string } {
  const trimmed = text.trimStart();
  const own = trimmed.startsWith(start);
  const rest = own ? trimmed.slice(start.length) : text;
  const at = rest.indexOf(end);
  // A mark that nothing opened ends nothing.
  if (!own && !open) return { text };
  if (at < 0) return { reasoning: rest.trim(), text: '' };
  return { reasoning: rest.slice(0, at).trim(), text: rest.slice(at + end.length).trimStart() };
}
