import { checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { didYouMean, nearest } from '../arguments/nearest.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';

/**
 * `{{field}}`, `{{field?}}`, `{{field:default}}`, blanks inside allowed; a name is whatever holds no brace. Four braces
 * are two of text.
 */
const FIELD = /\{\{\{\{|\{\{([^{}]*)\}\}/g;
const EXPECTED = 'a text with {{field}} where a value of the row goes';

/** A field that a template asks for. */
interface Asked {
  /** All that stands in the braces: a field that is called just so goes first (`Why?`). */
  readonly whole: string;
  readonly name: string;
  /** The text that stands for a value that is missing or null; undefined where that is an error. */
  readonly otherwise: string | undefined;
}

/** @throws UsageError for a text without a field, or with braces that name none */
export function checkPromptTemplate(name: string, template: unknown): asserts template is string {
  checkText(name, template, EXPECTED);
  const names = fieldsOfTemplate(template);
  const strays = hasStrayBraces(template);
  if (names.length === 0 && !strays) throw new UsageError(`${name}: found ${found(template)}, expected ${EXPECTED}`);
  if (strays)
    throw new UsageError(
      `${name}: found braces that name no field in ${found(template)}, expected ${EXPECTED} ({{{{ is the text {{)`,
    );
}

/** Tells whether a template has braces that name no field. */
export function hasStrayBraces(template: string): boolean {
  return fieldsOfTemplate(template).includes('') || template.replace(FIELD, '\0').includes('{{');
}

/** The names of the fields that a template asks for. */
export function fieldsOfTemplate(template: string): readonly string[] {
  return askedOf(template).map(({ name }) => name);
}

function askedOf(template: string): readonly Asked[] {
  return [...template.matchAll(FIELD)].flatMap(([, inside]) => (inside === undefined ? [] : [askedIn(inside)]));
}

function askedIn(inside: string): Asked {
  const whole = inside.trim();
  const colon = whole.indexOf(':');
  if (colon >= 0) return { whole, name: whole.slice(0, colon).trim(), otherwise: whole.slice(colon + 1).trim() };
  if (whole.endsWith('?')) return { whole, name: whole.slice(0, -1).trim(), otherwise: '' };
  return { whole, name: whole, otherwise: undefined };
}

/**
 * @param known names that rows have
 * @param where they are found, in words
 * @param all whether rows have no others: then a field that may be missing is refused where it is a known one misspelt
 * @throws UsageError for a field that no row has
 */
export function checkTemplateFields(template: string, known: ReadonlySet<string>, where: string, all: boolean): void {
  const names = [...known];
  const missing = askedOf(template).find(({ whole, name, otherwise }) => {
    if (known.has(whole) || known.has(name)) return false;
    return otherwise === undefined || (all && isMisspelt(name, names));
  });
  if (missing === undefined) return;
  throw new UsageError(
    `promptTemplate: found the field ${found(missing.name)}, which ${where} not have, expected any of ${listed(names)}${didYouMean(missing.name, names)}`,
  );
}

/** A column that another begins with (`title`, `title_en`) is no slip of the pen. */
function isMisspelt(name: string, names: readonly string[]): boolean {
  const meant = nearest(name, names);
  return meant !== undefined && Math.abs(meant.length - name.length) <= 2;
}

/**
 * The template with the row's values: texts as they are, numbers and truth values as they are written, lists and
 * objects as JSON.
 * @param mostUnits of the text, which is not made if it would have more
 * @throws RowError for a field that the row does not have, or that is null, where the template has nothing in its
 * stead; for values that are too long together
 */
export function filledTemplate(
  template: string,
  fields: Readonly<Record<string, unknown>>,
  mostUnits = Infinity,
): string {
  const pieces: string[] = [];
  let units = 0;
  for (const { text } of templatePieces(template, fields)) {
    units += text.length;
    if (units > mostUnits)
      throw new RowError(
        'too-long',
        `the prompt's template with the row's values has more than ${mostUnits} UTF-16 units, expected at most so many, as the model's context takes no more`,
      );
    pieces.push(text);
  }
  return pieces.join('');
}

/** A text of a filled template, and the field that it is of: undefined for the template's own text. */
export interface TemplatePiece {
  readonly text: string;
  readonly field?: string;
}

/** The same in its pieces, one after the other. @throws RowError */
export function* templatePieces(
  template: string,
  fields: Readonly<Record<string, unknown>>,
): Generator<TemplatePiece, void, undefined> {
  /** A field may be asked for many times. */
  const texts = new Map<string, TemplatePiece>();
  let end = 0;
  for (const { 0: braces, 1: inside, index } of template.matchAll(FIELD)) {
    yield { text: template.slice(end, index) };
    end = index + braces.length;
    if (inside === undefined) {
      yield { text: '{{' };
      continue;
    }
    const piece = texts.get(inside) ?? fieldPiece(fields, askedIn(inside));
    texts.set(inside, piece);
    yield piece;
  }
  yield { text: template.slice(end) };
}

function fieldPiece(fields: Readonly<Record<string, unknown>>, { whole, name, otherwise }: Asked): TemplatePiece {
  // A column that is called with the mark (`Why?`) is one that has to have a value.
  const exact = Object.hasOwn(fields, whole);
  const field = exact ? whole : name;
  const there = exact || Object.hasOwn(fields, name);
  const text = textOf(there ? fields[field] : undefined, field);
  if (text !== undefined) return { text, field };
  if (otherwise !== undefined && field === name) return { text: otherwise };
  const remedy = `{{${field}?}} makes that empty text, {{${field}:TEXT}} TEXT`;
  if (there && fields[field] === null)
    throw new RowError(
      'missing-field',
      `found null in the field ${found(field)}, which the prompt's template asks for: ${remedy}`,
    );
  const names = Object.keys(fields).filter((known) => (fields[known] ?? undefined) !== undefined);
  throw new RowError(
    'missing-field',
    `found no field ${found(field)}, which the prompt's template asks for (${remedy}): the row has ${names.length === 0 ? 'none' : listed(names)}`,
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
