import type { ToolForm } from '../ToolForm.js';
import { apriel } from './apriel.js';
import { deepseekV3, deepseekV31 } from './deepseek.js';
import { deepseekV32, deepseekV4 } from './dsml.js';
import { functionGemma, gemma4 } from './gemma.js';
import { glm, glm47 } from './glm.js';
import { harmony } from './harmony.js';
import { hermes } from './hermes.js';
import { kimi } from './kimi.js';
import { llama3 } from './llama3.js';
import { minimax } from './minimax.js';
import { mistral } from './mistral.js';
import { mistralArgs } from './mistralArgs.js';
import { plain } from './plain.js';
import { qwenXml } from './qwenXml.js';

/** Known forms: the one that a template has of several comes first. */
const KNOWN: readonly ToolForm[] = [
  gemma4,
  functionGemma,
  harmony,
  kimi,
  minimax,
  deepseekV32,
  deepseekV4,
  deepseekV3,
  deepseekV31,
  mistralArgs,
  mistral,
  qwenXml,
  glm47,
  glm,
  apriel,
  hermes,
  llama3,
];

const BY_NAME: ReadonlyMap<string, ToolForm> = new Map([...KNOWN, plain].map((form) => [form.name, form]));

/** The form of calls that a chat template has; undefined where none is known. */
export function formIn(template: string): ToolForm | undefined {
  return KNOWN.find((form) => form.isIn(template));
}

export const PLAIN = plain;

export function formNamed(name: string): ToolForm {
  return BY_NAME.get(name) ?? plain;
}

/** Names of the forms that are known, for people. */
export const FORM_NAMES: readonly string[] = KNOWN.map(({ name }) => name);
