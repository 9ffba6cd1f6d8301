import type { GrammarKind } from '../../bindings/Grammars.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import type { HeldTools } from '../tools/heldTools.js';

/** The format an answer is held to, if it is. */
export type HeldFormat = Exclude<ResponseFormat, { readonly type: 'text' }> | HeldTools;

/**
 * A format as one text: equal texts are equal formats. The order of a schema's properties counts, for it is that of the
 * answer's.
 * @throws ResponseFormatError for a schema that is no JSON
 */
export function formatText(format: HeldFormat): { readonly kind: GrammarKind; readonly text: string } {
  const { type } = format;
  if (type === 'regex') return { kind: type, text: format.regex };
  if (type === 'grammar') return { kind: type, text: format.grammar };
  if (type === 'choices') return { kind: type, text: JSON.stringify(format.choices) };
  if (type === 'tools') return { kind: 'composed', text: json(format) };
  const { schema, maxStringLength, maxArrayItems } = format;
  const bounds = maxStringLength ?? maxArrayItems;
  return { kind: type, text: bounds === undefined ? json(schema) : json([schema, maxStringLength, maxArrayItems]) };
}

function json(schema: unknown): string {
  try {
    return JSON.stringify(schema);
  } catch (error) {
    throw new ResponseFormatError(
      'responseFormat.schema: found what is no JSON, expected plain JSON data',
      '',
      undefined,
      { cause: error },
    );
  }
}
