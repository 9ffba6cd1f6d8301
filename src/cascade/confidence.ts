import type { AnyResult } from '../Results.js';

/** How sure the model was of a result, from 0 to 1; below that where it does not say, or there is no answer. */
export function confidenceOf({ error, label, probability, confidence }: AnyResult): number {
  if (error) return -1;
  return (label === undefined ? confidence : probability) ?? -1;
}

/** Gives what was answered, as a text that is equal where answers are; undefined for an error. */
export function saidBy({ error, answers, label, toolCalls, value, text = '' }: AnyResult): string | undefined {
  if (error) return undefined;
  if (answers)
    return sorted(
      Object.fromEntries(Object.entries(answers).map(([name, one]) => [name, one.value ?? one.text.trim()])),
    );
  const calls = toolCalls?.map(({ function: { name, arguments: given } }) => [name, given]);
  return sorted(label ?? (calls ? [calls, text.trim()] : (value ?? text.trim())));
}

/** JSON whose members stand in the order of their names: answers say them in any. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
