import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

/** Apriel 1.5: `<tool_calls>[{"name": …, "arguments": …}]</tool_calls>`. */
export const apriel = sectionForm({
  name: 'apriel',
  isIn: (template) => template.includes('<tool_calls>['),
  trigger: '<tool_calls>',
  section: ['<tool_calls>[', ']</tool_calls>'],
  between: ', ',
  begins: '{"name": "',
  named: ['", "arguments": '],
  ends: ['}'],
  arguments: jsonArguments,
  markers: ['<tool_calls>', '</tool_calls>'],
});
