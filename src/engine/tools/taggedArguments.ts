import { declaredTypes, propertiesOf, typeOfValue, type PartOfSchema } from './declaredTypes.js';
import { enforcedPart } from './enforcedPart.js';
import type { Reader } from './Reader.js';
import { joined, literal, type Rules } from './Rules.js';
import type { ArgumentForm, CallableTool } from './ToolForm.js';

export interface Tags {
  /** Before a parameter's name. */
  readonly begins: string;
  /** Between its name and its value; where the form tells texts from other values, of each. */
  readonly named: string | { readonly text: string; readonly other: string };
  /** Behind its value. */
  readonly ends: string;
  /** Words of Python's stand for JSON's as well, as templates write them. */
  readonly python?: true;
}

const PYTHON: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };

/** Arguments one by one between tags: texts as they are, other values as JSON. */
export function taggedArguments(tags: Tags): ArgumentForm {
  return {
    rule: ({ parameters }, rules) =>
      joined(
        ...propertiesOf(parameters).map(({ name, schema, required }) => {
          const one = joined(literal(tags.begins + name), valueRule(tags, { schema, root: parameters }, rules));
          return required ? one : `(${one})?`;
        }),
      ),
    read: (reader, tool) => readArguments(tags, reader, tool),
  };
}

function valueRule({ named, ends, python }: Tags, property: PartOfSchema, rules: Rules): string {
  const [text, other] = typeof named === 'string' ? [named, named] : [named.text, named.other];
  const types = declaredTypes(property);
  const ways: string[] = [];
  if (types.has('string')) {
    const among = textsAmong(property.schema);
    ways.push(
      among === undefined
        ? joined(literal(text), rules.upTo(ends))
        : `${literal(text)} (${among.map((each) => literal(each + ends)).join(' | ')})`,
    );
  }
  const own = types.has('string') && types.size === 1 ? undefined : enforcedPart(property);
  if (own && !(types.has('string') && typeof named === 'string')) {
    const words = python
      ? Object.entries(PYTHON).filter(([, word]) => own.problem(JSON.parse(word)) === undefined)
      : [];
    const values = [rules.schema(own.grammar), ...words.map(([word]) => literal(word))];
    ways.push(joined(literal(other), `(${values.join(' | ')})`, literal(ends)));
  } else if (!types.has('string')) ways.push(joined(literal(other), rules.upTo(ends)));
  return ways.length === 1 ? ways.join('') : `(${ways.join(' | ')})`;
}

/** The texts that a schema lists, if it does. */
function textsAmong(schema: unknown): readonly string[] | undefined {
  const { enum: values, const: only } = schema as { readonly enum?: unknown; readonly const?: unknown };
  const listed: readonly unknown[] = Array.isArray(values) ? values : only === undefined ? [] : [only];
  const texts = listed.filter((value) => typeof value === 'string');
  return texts.length > 0 && texts.length === listed.length ? texts : undefined;
}

function readArguments(
  { begins, named, ends, python }: Tags,
  reader: Reader,
  { parameters }: CallableTool,
): string | undefined {
  const schemas = new Map(propertiesOf(parameters).map(({ name, schema }) => [name, schema]));
  const written = new Map<string, string>();
  const [texts, others] = typeof named === 'string' ? [named, named] : [named.text, named.other];
  // What stands behind a name is all that tells where it ends.
  const [mark = ''] = sharedStart(texts, others).split('\n', 1);
  while (reader.take(begins)) {
    const name = reader.upTo(mark);
    if (name === undefined || written.has(name)) return undefined;
    const isText = reader.goOn(texts.slice(mark.length));
    if (!isText && (texts === others || !reader.goOn(others.slice(mark.length)))) return undefined;
    const value = reader.upTo(ends.trimEnd());
    if (value === undefined) return undefined;
    const json = valueOf(
      value,
      texts === others ? undefined : isText,
      { schema: schemas.get(name), root: parameters },
      python === true,
    );
    if (json === undefined) return undefined;
    written.set(name, json);
  }
  return `{${[...written].map(([name, json]) => `${JSON.stringify(name)}: ${json}`).join(', ')}}`;
}

/** A value as JSON. @param isText what the form says, if it does */
function valueOf(
  written: string,
  isText: boolean | undefined,
  property: PartOfSchema,
  python: boolean,
): string | undefined {
  if (isText === true) return JSON.stringify(written);
  const types = declaredTypes(property);
  const trimmed = written.trim();
  const json = python ? (PYTHON[trimmed] ?? trimmed) : trimmed;
  try {
    const type = typeOfValue(JSON.parse(json));
    // As a text it would have stood there as it is: where both may be meant, what is no text by its looks is none.
    if (isText === false || (type !== 'string' && types.has(type))) return json;
  } catch {
    if (isText === false) return undefined;
  }
  return types.has('string') || property.schema === undefined ? JSON.stringify(written) : undefined;
}

function sharedStart(a: string, b: string): string {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return a.slice(0, at);
}
