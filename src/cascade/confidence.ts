import { sortedJson } from '../arguments/sortedJson.js';
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
    return sortedJson(
      Object.fromEntries(Object.entries(answers).map(([name, one]) => [name, one.value ?? one.text.trim()])),
    );
  const calls = toolCalls?.map(({ function: { name, arguments: given } }) => [name, given]);
  return sortedJson(label ?? (calls ? [calls, text.trim()] : (value ?? text.trim())));
}
