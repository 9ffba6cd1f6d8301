import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';
import { nineCharacters } from './mistral.js';

/** Mistral Small 3.2, Devstral, Magistral, Ministral 3: `[TOOL_CALLS]NAME[ARGS]{…}`, with `[CALL_ID]` or without. */
export const mistralArgs = sectionForm({
  name: 'mistral-args',
  isIn: (template) => template.includes('[TOOL_CALLS]') && template.includes('[ARGS]'),
  trigger: '[TOOL_CALLS]',
  between: '',
  begins: '[TOOL_CALLS]',
  named: [{ optional: ['[CALL_ID]', { made: 'ID' }] }, '[ARGS]'],
  ends: [],
  arguments: jsonArguments,
  markers: ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]'],
  id: nineCharacters,
});
