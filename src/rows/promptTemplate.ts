import { checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { didYouMean } from '../arguments/nearest.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';

/** `{{field}}`, blanks inside allowed; a name is whatever holds no brace. */
const FIELD = /\{\{([^{}]*)\}\}/g;
const EXPECTED = 'a text with {{field}} where a value of the row goes';

/** @throws UsageError for a text without a field, or with braces that name none */
export function checkPromptTemplate(name: string, template: unknown): asserts template is string {
  checkText(name, template, EXPECTED);
  const names = fieldsOfTemplate(template);
  if (names.length === 0) throw new UsageError(`${name}: found ${found(template)}, expected ${EXPECTED}`);
  if (names.includes('') || template.replace(FIELD, '\0').includes('{{'))
    throw new UsageError(`${name}: found braces that name no field in ${found(template)}, expected ${EXPECTED}`);
}

/** The names of the fields that a template asks for. */
export function fieldsOfTemplate(template: string): readonly string[] {
  return [...template.matchAll(FIELD)].map(([, field = '']) => field.trim());
}

/**
 * @param known names that rows have
 * @param where they are found, in words
 * @throws UsageError for a field that no row has
 */
export function checkTemplateFields(template: string, known: ReadonlySet<string>, where: string): void {
  const missing = fieldsOfTemplate(template).find((name) => !known.has(name));
  if (missing === undefined) return;
  const names = [...known];
  throw new UsageError(
    `promptTemplate: found the field ${found(missing)}, which ${where} not have, expected any of ${listed(names)}${didYouMean(missing, names)}`,
  );
}

/**
 * The template with the row's values: texts as they are, numbers and truth values as they are written, lists and
 * objects as JSON.
 * @param mostUnits of the text, which is not made if it would have more
 * @throws RowError for a field that the row does not have, or that is null; for values that are too long together
 */
export function filledTemplate(
  template: string,
  fields: Readonly<Record<string, unknown>>,
  mostUnits = Infinity,
): string {
  const pieces: string[] = [];
  /** A field may be asked for many times. */
  const texts = new Map<string, string>();
  let units = 0;
  const add = (piece: string): void => {
    units += piece.length;
    if (units > mostUnits)
      throw new RowError(
        'too-long',
        `the prompt's template with the row's values has more than ${mostUnits} UTF-16 units, expected at most so many, as the model's context takes no more`,
      );
    pieces.push(piece);
  };
  let end = 0;
  for (const { 0: whole, 1: inside = '', index } of template.matchAll(FIELD)) {
    add(template.slice(end, index));
    const name = inside.trim();
    const text = texts.get(name) ?? fieldText(fields, name);
    texts.set(name, text);
    add(text);
    end = index + whole.length;
  }
  add(template.slice(end));
  return pieces.join('');
}

function fieldText(fields: Readonly<Record<string, unknown>>, name: string): string {
  const text = textOf(Object.hasOwn(fields, name) ? fields[name] : undefined, name);
  if (text !== undefined) return text;
  const there = Object.keys(fields).filter((field) => (fields[field] ?? undefined) !== undefined);
  throw new RowError(
    'missing-field',
    `found no field ${found(name)}, which the prompt's template asks for: the row has ${there.length === 0 ? 'none' : listed(there)}`,
  );
}

function textOf(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null || typeof value === 'string') return value ?? undefined;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (value instanceof Date && !Number.isNaN(value.valueOf())) return value.toISOString();
  if (Array.isArray(value) || isObject(value)) return jsonOf(value, name);
  throw new RowError(
    'invalid-row',
    `${name}: found ${found(value)}, expected text, a number, a truth value, a list or an object`,
  );
}

/** @throws RowError for what JSON cannot write: cycles, nesting without end */
function jsonOf(value: object, name: string): string {
  try {
    return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
  } catch (error) {
    throw new RowError('invalid-row', `${name}: found ${found(value)} that cannot be written as JSON`, {
      cause: error,
    });
  }
}

function listed(names: readonly string[]): string {
  const shown = names
    .slice(0, 10)
    .map((name) => found(name))
    .join(', ');
  return names.length > 10 ? `${shown}, …` : shown;
}
