import { found } from '../../arguments/found.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Reasoning, Row } from '../../Row.js';
import { askedTools, type AskedTools } from '../../rows/tools.js';
import { endsReasoning } from '../rows/reasoning.js';
import { FORM_NAMES, formIn, PLAIN } from './forms/index.js';
import type { TextFormat } from './heldText.js';
import type { ToolForm } from './ToolForm.js';

/** The format that answers which may call tools are held to. */
export interface HeldTools extends AskedTools {
  readonly type: 'tools';
  /** By name. */
  readonly form: string;
  /** True where the prompt begins the model's reasoning. */
  readonly open: boolean;
  readonly reasoning: Reasoning;
  /** The format of answers that call nothing. */
  readonly text?: TextFormat;
}

export type FormedTools = AskedTools & { readonly form: ToolForm };

/** Finds the tools that a row's answer may call, and how it writes the calls; undefined for none. @throws RowError */
export function formedTools(row: Row, options: GenerateOptions, tokenizer: Tokenizer): FormedTools | undefined {
  const asked = askedTools(row, options);
  if (asked === undefined) return undefined;
  const form = knownForm(tokenizer);
  if (form === undefined && asked.choice === 'auto')
    throw new RowError(
      'invalid-parameter',
      `toolChoice: found ${found(row.toolChoice ?? options.toolChoice ?? 'auto')}, with a model whose chat template has no form of calls that is known here (${FORM_NAMES.join(', ')}), expected required or the name of a function, whose calls are written in JSON, or none`,
    );
  return { ...asked, form: form ?? PLAIN };
}

/** The form of calls that the model's chat template has. */
export function knownForm({ toolTemplate }: Tokenizer): ToolForm | undefined {
  return toolTemplate === undefined ? undefined : formIn(toolTemplate);
}

export function heldTools(
  { form: { name }, tools, choice, parallel }: FormedTools,
  prompt: readonly number[],
  tokenizer: Tokenizer,
  reasoning: Reasoning,
  text: TextFormat | undefined,
): HeldTools {
  const { reasoningMarks: marks } = tokenizer;
  const open = marks !== undefined && endsReasoning(prompt, marks, tokenizer);
  return { type: 'tools', tools, choice, parallel, form: name, open, reasoning, ...(text && { text }) };
}
