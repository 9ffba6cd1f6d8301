import { sectionForm } from '../sectionForm.js';
import { taggedArguments } from '../taggedArguments.js';

/** Qwen3-Coder, Qwen 3.5, Nemotron: `<function=NAME><parameter=NAME>VALUE</parameter></function>` in `<tool_call>`. */
export const qwenXml = sectionForm({
  name: 'qwen3-coder',
  isIn: (template) =>
    template.includes('<tool_call>') && template.includes('<function=') && template.includes('<parameter='),
  trigger: '<tool_call>',
  between: '\n',
  begins: '<tool_call>\n<function=',
  named: ['>\n'],
  ends: ['</function>\n</tool_call>'],
  arguments: taggedArguments({ begins: '<parameter=', named: '>\n', ends: '\n</parameter>\n', python: true }),
  markers: ['<tool_call>', '</tool_call>'],
});
