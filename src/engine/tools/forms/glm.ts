import { sectionForm } from '../sectionForm.js';
import { taggedArguments } from '../taggedArguments.js';
import type { ToolForm } from '../ToolForm.js';

/** @param line what stands between the parts of a call */
function glmForm(name: string, line: string, isIn: ToolForm['isIn']): ToolForm {
  return sectionForm({
    name,
    isIn: (template) => template.includes('<tool_call>') && template.includes('<arg_key>') && isIn(template),
    trigger: '<tool_call>',
    between: line,
    begins: '<tool_call>',
    named: [line],
    ends: ['</tool_call>'],
    arguments: taggedArguments({
      begins: '<arg_key>',
      named: `</arg_key>${line}<arg_value>`,
      ends: `</arg_value>${line}`,
    }),
    markers: ['<tool_call>', '</tool_call>', '<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  });
}

/** GLM 4.5 and 4.6: `<tool_call>NAME<arg_key>NAME</arg_key><arg_value>VALUE</arg_value></tool_call>`, a part a line. */
export const glm = glmForm('glm', '\n', () => true);
/** GLM 4.7: the same in one line. */
export const glm47 = glmForm(
  'glm-4.7',
  '',
  (template) => /<\/arg_key>\s*<arg_value>/.test(template) && !/<\/arg_key>\n/.test(template),
);
