import { RowError } from '../../errors/RowError.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import { literal, type Rules } from './Rules.js';

/** The formats that a text beside tools can be held to. */
export type TextFormat = Exclude<ResponseFormat, { readonly type: 'text' | 'grammar' }>;

/** A grammar cannot be a part of that of the calls. @throws RowError */
export function textFormat(format: Exclude<ResponseFormat, { readonly type: 'text' }>): TextFormat {
  if (format.type !== 'grammar') return format;
  throw new RowError(
    'invalid-parameter',
    'responseFormat: found a grammar beside tools, expected json_schema, regex or choices there, or toolChoice none',
  );
}

/** An expression of a grammar for texts of a format. @param schema of `json_schema`, as answers are held to it */
export function textRule(format: TextFormat, schema: unknown, rules: Rules): string {
  if (format.type === 'json_schema') return rules.schema(schema);
  if (format.type === 'regex')
    return rules.terminal(
      'TEXT',
      format.regex.replace(/\\[^]|[/\n]/g, (part) => (part === '/' ? '\\/' : part === '\n' ? '\\n' : part)),
    );
  const some = format.choices.filter((choice) => choice !== '').map(literal);
  return `(${some.join(' | ')})${some.length < format.choices.length ? '?' : ''}`;
}
