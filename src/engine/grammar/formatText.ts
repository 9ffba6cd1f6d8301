import { found } from '../../arguments/found.js';
import type { GrammarKind } from '../../bindings/Grammars.js';
import { ResponseFormatError } from '../../errors/ResponseFormatError.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';

/**
 * A format as one text: equal texts are equal formats. The order of a schema's properties counts, for it is that of the answer's.
 * @throws ResponseFormatError for what is none
 */
export function formatText(format: ResponseFormat): { readonly kind: GrammarKind; readonly text: string } {
  const given: unknown = format;
  const fields = typeof given === 'object' && given !== null ? (given as Readonly<Record<string, unknown>>) : {};
  const { type } = fields;
  switch (type) {
    case 'json_schema':
      return { kind: type, text: json(fields['schema']) };
    case 'regex':
    case 'grammar':
      return { kind: type, text: text(type, fields[type]) };
    case 'choices': {
      const { choices } = fields;
      if (!Array.isArray(choices) || choices.length === 0) return refuse('choices', choices, 'an array of at least one string');
      choices.forEach((choice, at) => text(`choices[${at}]`, choice));
      return { kind: type, text: JSON.stringify(choices) };
    }
    default:
      return type === undefined && Object.keys(fields).length === 0 ? refuse('', given, 'an object with a type') : refuse('type', type, 'json_schema, regex, grammar or choices');
  }
}

function text(field: string, value: unknown): string {
  if (typeof value !== 'string') return refuse(field, value, 'a string');
  // Half a surrogate pair is no character, and no answer could have it.
  if (/\p{Cs}/u.test(value)) return refuse(field, value, 'text without lone surrogates');
  return value;
}

function json(schema: unknown): string {
  if ((typeof schema !== 'object' && typeof schema !== 'boolean') || schema === null || Array.isArray(schema)) return refuse('schema', schema, 'a JSON Schema: an object, true or false');
  let written: string | undefined;
  try {
    written = JSON.stringify(schema);
  } catch (error) {
    throw new ResponseFormatError('responseFormat.schema: found what is no JSON, expected plain JSON data', '', undefined, { cause: error });
  }
  return written ?? refuse('schema', schema, 'plain JSON data');
}

function refuse(field: string, value: unknown, expected: string): never {
  throw new ResponseFormatError(`responseFormat${field === '' ? '' : `.${field}`}: found ${found(value)}, expected ${expected}`);
}
