import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

const MARKERS = [
  '<｜tool▁calls▁begin｜>',
  '<｜tool▁call▁begin｜>',
  '<｜tool▁sep｜>',
  '<｜tool▁call▁end｜>',
  '<｜tool▁calls▁end｜>',
] as const;
const [CALLS, CALL, SEPARATOR, CALL_END, CALLS_END] = MARKERS;

/** DeepSeek V3, R1 and its distillates: names stand after the word `function`, arguments in a fence of Markdown. */
export const deepseekV3 = sectionForm({
  name: 'deepseek-v3',
  isIn: (template) => template.includes(CALL) && template.includes('```json'),
  trigger: CALLS,
  section: [CALLS, CALLS_END],
  between: '\n',
  begins: `${CALL}function${SEPARATOR}`,
  named: ['\n```json\n'],
  ends: [`\n\`\`\`${CALL_END}`],
  arguments: jsonArguments,
  markers: MARKERS,
});

/** DeepSeek V3.1. */
export const deepseekV31 = sectionForm({
  name: 'deepseek-v3.1',
  isIn: (template) => template.includes(CALL) && !template.includes('```json'),
  trigger: CALLS,
  section: [CALLS, CALLS_END],
  between: '',
  begins: CALL,
  named: [SEPARATOR],
  ends: [CALL_END],
  arguments: jsonArguments,
  markers: MARKERS,
});
