import { found } from '../arguments/found.js';
import type { Work } from '../collections/drained.js';
import type { Steps } from '../regex/Steps.js';
import type { Goal } from './Alternative.js';
import { escaped, KEYWORDS, type Json, type JsonObject } from './keywords.js';
import { JUDGED_FORMATS } from './formats.js';
import { PatternProblem, searched } from './patterns.js';
import { PatternTests } from './PatternTests.js';
import { bare, pointerOf, type SchemaDocument, type Subschema, UnsupportedSchema } from './SchemaDocument.js';
import { type CheckedSchema, Validation } from './Validation.js';

/**
 * Looks whether values satisfy the schemas of a document. By an interpreter: rows bring schemas, and code that is made
 * of what rows bring is not to run. It is given no more of a schema than the keywords that are known here, with
 * references resolved.
 */
export class Values {
  readonly #copies = new Map<number, CheckedSchema>();
  readonly #lookup = Object.create(null) as Record<string, CheckedSchema>;
  readonly #patterns = new PatternTests();

  /**
   * @param steps of all that is looked at, where nothing else is said
   * @throws UnsupportedSchema for what cannot be looked at: no regular expression, a reference into nowhere
   */
  static *inParts(document: SchemaDocument, steps: Steps): Work<Values> {
    const values = new Values(document, steps);
    yield* values.#copy(document.root);
    return values;
  }

  private constructor(
    private readonly document: SchemaDocument,
    private readonly steps: Steps,
  ) {}

  /** Tells whether a text has a match of a translated pattern. @throws StepLimit */
  matches(pattern: string, text: string): Work<boolean> {
    return this.#patterns.test(pattern, text, this.steps);
  }

  /** Tells whether a value does what the goal says. */
  *holds(value: Json, { schema, holds }: Goal): Work<boolean> {
    return ((yield* this.problem(value, schema)) === undefined) === holds;
  }

  /** Says in words what is wrong with a value; undefined where nothing is. @throws StepLimit */
  *problem(value: Json, schema: Subschema, steps = this.steps): Work<string | undefined> {
    const validation = new Validation(this.#lookup, this.#patterns, steps);
    return yield* validation.problem(yield* bare(value), yield* this.#copy(schema));
  }

  *#copy(place: Subschema): Work<CheckedSchema> {
    const known = this.#copies.get(place.id);
    if (known !== undefined) return known;
    const { schema } = place;
    if (typeof schema === 'boolean') return this.#keep(place, schema);
    const copy = Object.create(null) as Record<string, unknown>;
    this.#keep(place, copy);
    if (this.#copies.size % SLICE === 0) yield;
    for (const [keyword, value] of Object.entries(schema))
      if (value !== undefined) Object.assign(copy, yield* this.#keyword(place, keyword, value));
    const { $dynamicRef: reference } = schema;
    if (typeof reference === 'string')
      // A schema may have both, and all that is in its allOf.
      copy['allOf'] = [
        yield* this.#reference(this.document.resolveDynamic(place, reference)),
        ...((copy['allOf'] ?? []) as readonly CheckedSchema[]),
      ];
    return copy;
  }

  *#reference(target: Subschema): Work<{ readonly $ref: string }> {
    yield* this.#copy(target);
    return { $ref: `#${target.id}` };
  }

  #keep(place: Subschema, copy: CheckedSchema): CheckedSchema {
    this.#copies.set(place.id, copy);
    this.#lookup[`#${place.id}`] = copy;
    return copy;
  }

  *#keyword(place: Subschema, keyword: string, value: Json): Work<object> {
    const below = (rest: string): Work<CheckedSchema> => this.#copy(this.document.below(place, `/${keyword}${rest}`));
    switch (KEYWORDS.get(keyword)) {
      case 'schema':
        return { [keyword]: yield* below('') };
      case 'schemas': {
        const copies: CheckedSchema[] = [];
        for (const at of (value as readonly Json[]).keys()) copies.push(yield* below(`/${at}`));
        return { [keyword]: copies };
      }
      case 'map of schemas': {
        if (keyword === '$defs' || keyword === 'definitions') return {};
        const copies = yield* byName(value, below);
        return { [keyword]: keyword === 'patternProperties' ? byPattern(place, copies) : copies };
      }
      case undefined:
        return {};
      default:
    }
    if (keyword === 'pattern') return { pattern: patternOf(place, keyword, value as string) };
    if (keyword === 'format') return JUDGED_FORMATS.has(value as string) ? { format: value } : {};
    if (keyword === '$ref') return yield* this.#reference(this.document.resolve(place, value as string));
    return keyword.startsWith('$') ? {} : { [keyword]: value };
  }
}

/** Schemas between two moments at which copying them may stop. */
const SLICE = 256;

type Copies = Record<string, CheckedSchema>;

function* byName(schemas: Json, below: (rest: string) => Work<CheckedSchema>): Work<Copies> {
  const copies = Object.create(null) as Copies;
  for (const name of Object.keys(schemas as JsonObject)) copies[name] = yield* below(`/${escaped(name)}`);
  return copies;
}

/** Patterns that translate alike hold together. */
function byPattern(place: Subschema, named: Copies): Copies {
  const copies = Object.create(null) as Copies;
  for (const [pattern, copy] of Object.entries(named)) {
    const name = patternOf(place, 'patternProperties', pattern);
    const other = copies[name];
    copies[name] = other === undefined ? copy : { allOf: [other, copy] };
  }
  return copies;
}

function patternOf(place: Subschema, keyword: string, pattern: string): string {
  try {
    return searched(pattern);
  } catch (error) {
    if (!(error instanceof PatternProblem)) throw error;
    throw new UnsupportedSchema(pointerOf(place, `/${keyword}`), keyword, `found ${found(pattern)}: ${error.message}`, {
      cause: error,
    });
  }
}
