import { jsonArguments } from '../jsonArguments.js';
import { ANY } from '../Rules.js';
import { sectionForm } from '../sectionForm.js';

/** LLaMA 3.1 to 3.3: one call is the answer, `{"name": …, "parameters": …}`, perhaps after `<|python_tag|>`. */
export const llama3 = sectionForm({
  name: 'llama3',
  isIn: (template) =>
    template.includes('<|start_header_id|>') && /"parameters\\?"/.test(template) && /\{\\?"name\\?"/.test(template),
  trigger: '{"name": "',
  alone: { after: '<|python_tag|>', texts: [`\\s*\\{\\s*"name"${ANY}`, `${ANY}<\\|python_tag\\|>${ANY}`] },
  between: undefined,
  begins: '{"name": "',
  named: ['", "parameters": '],
  ends: ['}'],
  arguments: jsonArguments,
  markers: ['<|python_tag|>'],
  stops: ['<|eom_id|>'],
});
