import { InvalidPromptError, type Experimental_DecisionModelV4State } from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { membersOf } from '../arguments/isObject.js';
import { unsupportedContent } from './errors.js';

type State = Experimental_DecisionModelV4State;

/**
 * Gives what questions and fields are about, as one text.
 * @throws InvalidPromptError; UnsupportedFunctionalityError for files
 */
export function stateText(state: State): string {
  if (!Array.isArray(state)) throw wrong(state, `state: found ${found(state)}, expected an array of parts`);
  return state.map((part: State[number], at) => partText(part, `state[${at}]`)).join('\n\n');
}

function partText(part: State[number], where: string): string {
  const { type, text, value, mediaType } = membersOf(part);
  if (type === 'text' && typeof text === 'string') return text;
  if (type === 'json') return inputText(value);
  if (type === 'file') throw unsupportedContent(where, `a file of ${found(mediaType)}`);
  throw wrong(part, `${where}: found ${found(type)}, expected a part of text, or json`);
}

/** Instructions and descriptions in words: texts as they are, the rest as JSON. */
export function inputText(input: unknown): string {
  return typeof input === 'string' ? input : (JSON.stringify(input) ?? 'null');
}

function wrong(prompt: unknown, message: string): InvalidPromptError {
  return new InvalidPromptError({ prompt, message });
}
