import { sectionForm } from '../sectionForm.js';
import { taggedArguments } from '../taggedArguments.js';
import type { ToolForm } from '../ToolForm.js';

const TAG = '｜DSML｜';

/** @param section what calls stand in: `function_calls`, or `tool_calls` */
function dsml(name: string, section: string): ToolForm {
  return sectionForm({
    name,
    isIn: (template) => template.includes(TAG) && template.includes(`${section}>`),
    trigger: `<${TAG}${section}>`,
    section: [`<${TAG}${section}>\n`, `</${TAG}${section}>`],
    between: '',
    begins: `<${TAG}invoke name="`,
    named: ['">\n'],
    ends: [`</${TAG}invoke>\n`],
    arguments: taggedArguments({
      begins: `<${TAG}parameter name="`,
      named: { text: '" string="true">', other: '" string="false">' },
      ends: `</${TAG}parameter>\n`,
    }),
    markers: [TAG],
  });
}

/** DeepSeek V3.2: tags that say of each parameter whether it is a text. */
export const deepseekV32 = dsml('deepseek-v3.2', 'function_calls');
/** DeepSeek V4. */
export const deepseekV4 = dsml('deepseek-v4', 'tool_calls');
