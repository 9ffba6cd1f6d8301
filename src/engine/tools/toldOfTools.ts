import type { Tokenizer } from '../../model/Tokenizer.js';
import type { Row, ToolOptions } from '../../Row.js';
import { askedTools } from '../../rows/tools.js';
import { knownForm } from './heldTools.js';

/**
 * Makes the text that tells a model of tools whose chat template says nothing of them, and how to call them; undefined
 * where the template does that, or there are none.
 */
export function toldOfTools(row: Row, options: ToolOptions, tokenizer: Tokenizer): string | undefined {
  const { toolTemplate } = tokenizer;
  if (toolTemplate === undefined || knownForm(tokenizer) || /\btools\b/.test(toolTemplate)) return undefined;
  if ((row.tools ?? options.tools ?? row.toolChoice ?? options.toolChoice ?? undefined) === undefined) return undefined;
  const asked = askedTools(row, options);
  if (asked === undefined) return undefined;
  const tools = asked.tools.map(({ description, ...tool }) => ({
    name: tool.name,
    ...(description !== undefined && { description }),
    parameters: tool.parameters,
  }));
  return `You can call these functions:\n${tools.map((tool) => JSON.stringify(tool)).join('\n')}\nAnswer with a JSON list of calls alone: [{"name": NAME, "arguments": OBJECT}]`;
}
