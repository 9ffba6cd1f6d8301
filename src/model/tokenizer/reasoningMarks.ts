import type { ReasoningMarks } from '../Tokenizer.js';

/** Marks of the families whose models reason. */
const KNOWN: readonly ReasoningMarks[] = [
  { start: '<think>', end: '</think>' }, // Qwen 3, DeepSeek R1, SmolLM 3
  { start: '[THINK]', end: '[/THINK]' }, // Magistral
  { start: '<seed:think>', end: '</seed:think>' }, // Seed-OSS
  { start: '<|START_THINKING|>', end: '<|END_THINKING|>' }, // Command A Reasoning
];

/** The marks that a chat template names; undefined if none. */
export function reasoningMarksIn(template: string): ReasoningMarks | undefined {
  return KNOWN.find(({ end }) => template.includes(end));
}
