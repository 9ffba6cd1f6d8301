import { declaredTypes, propertiesOf, typeOfValue, type PartOfSchema } from './declaredTypes.js';
import { enforcedPart } from './enforcedPart.js';
import type { Reader, Steps, Tell } from './Reader.js';
import { joined, literal, type Rules } from './Rules.js';
import { textUpTo } from './textUpTo.js';
import type { ArgumentForm, CallableTool } from './ToolForm.js';

export interface Tags {
  /** Before a parameter's name. */
  readonly begins: string;
  /** Between its name and its value; where the form tells texts from other values, of each. */
  readonly named: string | { readonly text: string; readonly other: string };
  /** After its value. */
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
    read: (reader, tool, tell) => readArguments(tags, reader, tool, tell),
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
        ? joined(literal(text), textUpTo(ends, property, rules))
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

function* readArguments(
  { begins, named, ends, python }: Tags,
  reader: Reader,
  { parameters }: CallableTool,
  tell: Tell,
): Steps<boolean> {
  const schemas = new Map(propertiesOf(parameters).map(({ name, schema }) => [name, schema]));
  const names = new Set<string>();
  const [texts, others] = typeof named === 'string' ? [named, named] : [named.text, named.other];
  // What stands after a name is all that tells where it ends.
  const [mark = ''] = sharedStart(texts, others).split('\n', 1);
  while (yield* reader.take(begins)) {
    const name = yield* reader.before(mark);
    if (name === undefined || names.has(name)) return false;
    tell(`${names.size === 0 ? '{' : ', '}${JSON.stringify(name)}: `);
    names.add(name);
    const isText = yield* reader.goOn(texts.slice(mark.length));
    if (!isText && (texts === others || !(yield* reader.goOn(others.slice(mark.length))))) return false;
    const property = { schema: schemas.get(name), root: parameters };
    const said = texts === others ? undefined : isText;
    if (said ?? isTextAlone(property)) {
      if (!(yield* readText(reader, ends.trimEnd(), tell))) return false;
      continue;
    }
    const value = yield* reader.before(ends.trimEnd());
    const json = value === undefined ? undefined : valueOf(value, said, property, python === true);
    if (json === undefined) return false;
    tell(json);
  }
  tell(names.size === 0 ? '{}' : '}');
  return true;
}

function isTextAlone(property: PartOfSchema): boolean {
  const types = declaredTypes(property);
  return types.has('string') && types.size === 1;
}

/** Tells the text before a mark as a text of JSON, as it comes. @returns whether the mark is there */
export function* readText(reader: Reader, mark: string, tell: Tell): Steps<boolean> {
  tell('"');
  const found = yield* reader.upTo(mark, (piece) => {
    tell(JSON.stringify(piece).slice(1, -1));
  });
  tell('"');
  return found;
}

/** A value as JSON. @param isText what the form says, if it does: that it is none */
function valueOf(
  written: string,
  isText: false | undefined,
  property: PartOfSchema,
  python: boolean,
): string | undefined {
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
