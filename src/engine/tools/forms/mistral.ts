import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

/** Mistral 7B v0.3, Nemo, Small up to 3.1: `[TOOL_CALLS][{"name": …, "arguments": …, "id": …}]`. */
export const mistral = sectionForm({
  name: 'mistral',
  isIn: (template) => template.includes('[TOOL_CALLS]') && !template.includes('[ARGS]'),
  trigger: '[TOOL_CALLS]',
  section: ['[TOOL_CALLS][', ']'],
  between: ', ',
  begins: '{"name": "',
  named: ['", "arguments": '],
  ends: [{ optional: [', "id": "', { made: 'ID' }, '"'] }, '}'],
  arguments: jsonArguments,
  markers: ['[TOOL_CALLS]'],
  id: nineCharacters,
});

/** Mistral's templates refuse ids of any other length. */
export function nineCharacters(_name: string, _nth: number, digits: string): string {
  return digits.slice(0, 9);
}
