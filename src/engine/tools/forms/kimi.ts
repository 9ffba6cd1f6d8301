import { jsonArguments } from '../jsonArguments.js';
import { sectionForm } from '../sectionForm.js';

const MARKERS = [
  '<|tool_calls_section_begin|>',
  '<|tool_call_begin|>',
  '<|tool_call_argument_begin|>',
  '<|tool_call_end|>',
  '<|tool_calls_section_end|>',
] as const;
const [CALLS, CALL, ARGUMENTS, CALL_END, CALLS_END] = MARKERS;

/** Kimi K2: calls whose ids are `functions.NAME:NUMBER`. */
export const kimi = sectionForm({
  name: 'kimi-k2',
  isIn: (template) => template.includes(CALLS) && template.includes(ARGUMENTS),
  trigger: CALLS,
  section: [CALLS, CALLS_END],
  between: '',
  begins: `${CALL}functions.`,
  named: [':', { made: 'DIGITS' }, ARGUMENTS],
  ends: [CALL_END],
  arguments: jsonArguments,
  markers: MARKERS,
  id: (name, nth) => `functions.${name}:${nth}`,
});
