import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

/** Hermes, Qwen 2.5 and 3, Granite 4 and many others: `<tool_call>{"name": …, "arguments": …}</tool_call>`. */
export const hermes = sectionForm({
  name: 'hermes',
  isIn: (template) =>
    template.includes('<tool_call>') && /\\?"arguments\\?"/.test(template) && !template.includes('<tool_calls>['),
  trigger: '<tool_call>',
  between: '\n',
  begins: '<tool_call>\n{"name": "',
  named: ['", "arguments": '],
  ends: ['}\n</tool_call>'],
  arguments: jsonArguments,
  markers: ['<tool_call>', '</tool_call>'],
});
