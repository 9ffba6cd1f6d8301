import { isObject } from '../../arguments/isObject.js';
import { memberRanges } from '../../arguments/memberRanges.js';
import { LONG_NUMBER, sameDecimal } from '../../arguments/jsonNumbers.js';
import type { AnyResult } from '../../Results.js';
import type { DeclaredProperty, PropertyType } from '../../schema/declaredProperties.js';
import { jsonCell } from './columnText.js';
import type { ColumnKind } from './Table.js';

/**
 * The content of a property's cell; integers that JavaScript's numbers cannot tell from their neighbours are bigints.
 */
export type PropertyCell = ScalarCell | readonly (ScalarCell | null)[];
type ScalarCell = string | number | bigint | boolean;

/** The part of a result that stands in the columns of a schema's properties. */
interface AnswerCells {
  readonly cells: ReadonlyMap<string, PropertyCell>;
  /** True where the cells are the whole answer: else its text stands beside them. */
  readonly all: boolean;
}

/** The kind of column for properties of each type. */
export const COLUMN_OF: Readonly<Record<PropertyType, ColumnKind>> = {
  string: 'text',
  integer: 'integer',
  number: 'number',
  boolean: 'boolean',
  json: 'text',
  'string[]': 'texts',
  'integer[]': 'integers',
  'number[]': 'numbers',
  'boolean[]': 'booleans',
};

/**
 * The cells that each result has in the columns of a schema's properties. An answer that is not of the run's schema (of
 * a row with a format of its own, of one that failed), or that has more than there are columns for, is never made to
 * fit: what does not is left out, and its text says so.
 */
export class PropertyCells {
  readonly #known = new WeakMap<AnyResult, AnswerCells>();

  readonly #properties: readonly DeclaredProperty[];

  /**
   * @param isText whether the table has no types: an empty text cannot be told from no value, so that it says nothing,
   * and lists are JSON
   */
  constructor(
    properties: readonly DeclaredProperty[],
    private readonly isText: boolean,
  ) {
    this.#properties = isText
      ? properties.map(({ name, type }) => ({ name, type: type.endsWith('[]') ? 'json' : type }))
      : properties;
  }

  of(result: AnyResult): AnswerCells {
    let told = this.#known.get(result);
    if (told === undefined) {
      told = this.#read(result);
      this.#known.set(result, told);
    }
    return told;
  }

  #read({ answers, value: told, text = '' }: AnyResult): AnswerCells {
    const value = answers ? valuesOf(answers) : told;
    if (!isObject(value)) return { cells: new Map(), all: false };
    const sources = answers ? textsOf(answers) : LONG_NUMBER.test(text) ? memberSources(text) : undefined;
    const cells = new Map<string, PropertyCell>();
    let columns = 0;
    let all = true;
    for (const { name, type } of this.#properties) {
      if (!Object.hasOwn(value, name)) continue;
      columns += 1;
      const given = value[name];
      if (given === null || given === undefined) continue;
      const { cell, exact } = CELLS[type](given, sourceOf(given, sources?.get(name)));
      if (cell !== undefined) cells.set(name, cell);
      if (!exact || (this.isText && cell === '')) all = false;
    }
    const failed = answers !== undefined && Object.values(answers).some(({ error }) => error);
    return { cells, all: all && !failed && columns === Object.keys(value).length };
  }
}

/** Names the column that says how sure the model was of an answer. */
export function confidenceColumn(question: string): string {
  return `${question}_confidence`;
}

/** Answers that are there, and how sure the model was of them, as an object's members. */
function valuesOf(answers: AnyResult['answers'] & object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(answers).flatMap(([name, { text, value, confidence, error }]) => [
      [name, error ? null : (value ?? text)],
      ...(confidence === undefined ? [] : [[confidenceColumn(name), confidence]]),
    ]),
  ) as Readonly<Record<string, unknown>>;
}

/** Gives the texts of answers that are numbers, or hold some: they have all digits. */
function textsOf(answers: AnyResult['answers'] & object): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(answers).flatMap(([name, { text, value }]) =>
      typeof value !== 'string' && LONG_NUMBER.test(text) ? [[name, text]] : [],
    ),
  );
}

/** A member as it was written, unless it means something else by now: a schema may make values of its own. */
function sourceOf(value: unknown, source: string | undefined): string | undefined {
  if (source === undefined) return undefined;
  try {
    return JSON.stringify(JSON.parse(source)) === JSON.stringify(value) ? source : undefined;
  } catch {
    return undefined;
  }
}

interface Made<Cell extends PropertyCell = PropertyCell> {
  readonly cell?: Cell | undefined;
  /** True where the cell says all that the value does. */
  readonly exact: boolean;
}

type Maker<Cell extends PropertyCell = PropertyCell> = (value: unknown, source: string | undefined) => Made<Cell>;
type Scalar = 'string' | 'integer' | 'number' | 'boolean';

const SCALARS: Readonly<Record<Scalar, Maker<ScalarCell>>> = {
  string: (value) => only(typeof value === 'string', value),
  boolean: (value) => only(typeof value === 'boolean', value),
  integer: (value, source) => {
    if (!Number.isInteger(value) || Number.isSafeInteger(value)) return only(Number.isInteger(value), value);
    const whole = wholeOf(source);
    return whole !== undefined && BigInt.asIntN(64, whole) === whole ? { cell: whole, exact: true } : { exact: false };
  },
  number: (value, source) => {
    if (typeof value !== 'number') return { exact: false };
    if (source === undefined) return { cell: value, exact: !Number.isInteger(value) || Number.isSafeInteger(value) };
    const whole = wholeOf(source);
    return { cell: value, exact: whole === undefined ? sameDecimal(source, String(value)) : whole === BigInt(value) };
  },
};

const CELLS: Readonly<Record<PropertyType, Maker>> = {
  ...SCALARS,
  json: (value, source) => {
    const json = source ?? jsonCell(value);
    return { cell: json, exact: json !== undefined };
  },
  'string[]': listOf('string'),
  'integer[]': listOf('integer'),
  'number[]': listOf('number'),
  'boolean[]': listOf('boolean'),
};

/** A list is there as a whole, or not at all. */
function listOf(type: Scalar): Maker {
  return (value, source) => {
    if (!Array.isArray(value)) return { exact: false };
    // Of lists whose numbers need their spelling: there is no comma but between items.
    const sources = type === 'string' ? undefined : source?.slice(1, -1).split(',');
    const made = value.map((item: unknown, at) =>
      item === null ? { cell: null, exact: true } : SCALARS[type](item, sources?.[at]?.trim()),
    );
    if (made.some(({ cell }) => cell === undefined)) return { exact: false };
    return { cell: made.map(({ cell = null }) => cell), exact: made.every(({ exact }) => exact) };
  };
}

function only(fits: boolean, value: unknown): Made<ScalarCell> {
  return fits ? { cell: value as ScalarCell, exact: true } : { exact: false };
}

function wholeOf(source: string | undefined): bigint | undefined {
  return source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : undefined;
}

/** The members of an object as a text of JSON writes them: numbers with all of their digits. */
export function memberSources(text: string): ReadonlyMap<string, string> {
  return new Map([...memberRanges(text)].map(([name, { from, to }]) => [name, text.slice(from, to)]));
}
