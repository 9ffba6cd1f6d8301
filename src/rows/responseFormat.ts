import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import { asciiClasses } from './asciiClasses.js';

/**
 * The format that an answer is held to, token by token. JSON is written as `JSON.stringify` writes it: without spaces,
 * properties in the schema's order. A regular expression (Rust's syntax) matches the whole answer; a grammar is one in
 * Lark's notation, as llguidance reads it; of choices the answer is one. `text` is any text: for a row that is not held
 * to what its run says.
 */
export type ResponseFormat =
  | {
      readonly type: 'json_schema';
      readonly schema: unknown;
      /** Characters of a string without `maxLength` or pattern, at most. Default 8192. */
      readonly maxStringLength?: number;
      /** Items of an array without `maxItems`, at most, and properties of names that are not listed. Default 1024. */
      readonly maxArrayItems?: number;
    }
  | {
      readonly type: 'regex';
      readonly regex: string;
      /** The meaning of `\d`, `\w` and `\s`: of all of Unicode, as Rust has them, or of ASCII. Default unicode. */
      readonly classes?: 'unicode' | 'ascii';
    }
  | { readonly type: 'grammar'; readonly grammar: string }
  | { readonly type: 'choices'; readonly choices: readonly string[] }
  | { readonly type: 'text' };

/** The most of `maxStringLength` and `maxArrayItems`: the grammar's engine counts so far for one row. */
const MOST_BOUND = 2 ** 16;

/**
 * The format that is meant: OpenAI's `response_format` (`json_schema` with `{name, schema, strict}`, `json_object`)
 * says the same in its own way; `pattern` is `regex`. @throws RowError
 */
export function responseFormatOf(given: unknown): ResponseFormat {
  if (!isObject(given)) return refuse('', given, 'an object with a type');
  const { type } = given;
  switch (type) {
    case 'json_schema': {
      const { json_schema: openai } = given;
      const schema = isObject(openai) ? openai['schema'] : given['schema'];
      if (!isObject(schema) && typeof schema !== 'boolean')
        return refuse(
          isObject(openai) ? 'json_schema.schema' : 'schema',
          schema,
          'a JSON Schema: an object, true or false',
        );
      return { type, schema, ...boundOf(given, 'maxStringLength'), ...boundOf(given, 'maxArrayItems') };
    }
    case 'json_object':
      return { type: 'json_schema', schema: { type: 'object' } };
    case 'regex':
      return { type, regex: regexOf(textOf('regex', given['regex'] ?? given['pattern']), given['classes']) };
    case 'grammar':
      return { type, grammar: textOf('grammar', given['grammar']) };
    case 'choices': {
      const { choices } = given;
      if (!Array.isArray(choices) || choices.length === 0)
        return refuse('choices', choices, 'a list of at least one text');
      return { type, choices: choices.map((choice: unknown, at) => textOf(`choices[${at}]`, choice)) };
    }
    case 'text':
      return { type };
    default:
      return refuse('type', type, 'json_schema, regex, grammar, choices or text');
  }
}

/** The format of a whole run. @throws UsageError for what is none */
export function checkResponseFormat(_name: string, given: unknown): void {
  try {
    responseFormatOf(given);
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message, { cause: error }) : error;
  }
}

/** Says what a model is told of a format, where it is told; undefined for those that cannot be told in words. */
export function formatInWords(format: ResponseFormat): string | undefined {
  if (format.type === 'json_schema')
    return `Answer with JSON alone, which satisfies this JSON Schema:\n${JSON.stringify(format.schema)}`;
  return format.type === 'choices' ? `Answer with one of these alone:\n${format.choices.join('\n')}` : undefined;
}

/** Says what a model is told of an answer that was refused, before it is asked again. */
export function refusalInWords(problem: string): string {
  return `That answer was refused: ${problem}\nAnswer again, and with the mended answer alone.`;
}

/** Reads what ends answers whose schema does not. */
function boundOf<Name extends 'maxStringLength' | 'maxArrayItems'>(
  given: Readonly<Record<string, unknown>>,
  name: Name,
): { readonly [Key in Name]?: number } {
  const value = given[name];
  if (value === undefined || value === null) return {};
  if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > MOST_BOUND)
    return refuse(name, value, `a whole number from 1 to ${MOST_BOUND}`);
  return { [name]: value } as { readonly [Key in Name]?: number };
}

function regexOf(regex: string, classes: unknown): string {
  if (classes === undefined || classes === null || classes === 'unicode') return regex;
  return classes === 'ascii' ? asciiClasses(regex) : refuse('classes', classes, 'unicode or ascii');
}

function textOf(field: string, value: unknown): string {
  if (typeof value !== 'string') return refuse(field, value, 'a text');
  // Half a surrogate pair is no character, and no answer could have it.
  return /\p{Cs}/u.test(value) ? refuse(field, value, 'text without lone surrogates') : value;
}

function refuse(field: string, value: unknown, expected: string): never {
  throw new RowError(
    'invalid-parameter',
    `responseFormat${field === '' ? '' : `.${field}`}: found ${found(value)}, expected ${expected}`,
  );
}
