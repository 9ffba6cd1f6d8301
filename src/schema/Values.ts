import { found } from '../arguments/found.js';
import { drained, type Work } from '../collections/drained.js';
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
  readonly #validation: Validation;

  /**
   * @param steps of all that is looked at before there are others
   * @throws UnsupportedSchema for what cannot be looked at: no regular expression, a reference into nowhere
   */
  constructor(
    private readonly document: SchemaDocument,
    steps: Steps,
  ) {
    this.#validation = new Validation(this.#lookup, this.#patterns, steps);
    this.#copy(document.root);
  }

  /** What is looked at from now on takes its steps from these. */
  set steps(steps: Steps) {
    this.#validation.steps = steps;
  }

  /** Whether a text has a match of a translated pattern. @throws StepLimit */
  matches(pattern: string, text: string): boolean {
    return drained(this.#validation.matches(pattern, text));
  }

  /** Whether a value does what the goal says. */
  satisfies(value: Json, { schema, holds }: Goal): boolean {
    return drained(this.holds(value, { schema, holds }));
  }

  /** The same, in slices. */
  *holds(value: Json, { schema, holds }: Goal): Work<boolean> {
    return ((yield* this.problem(value, schema)) === undefined) === holds;
  }

  /** What is wrong with a value, in words; undefined where nothing is. */
  problem(value: Json, schema: Subschema): Work<string | undefined> {
    return this.#validation.problem(bare(value), this.#copy(schema));
  }

  #copy(place: Subschema): CheckedSchema {
    const known = this.#copies.get(place.id);
    if (known !== undefined) return known;
    const { schema } = place;
    if (typeof schema === 'boolean') return this.#keep(place, schema);
    const copy = Object.create(null) as Record<string, unknown>;
    this.#keep(place, copy);
    for (const [keyword, value] of Object.entries(schema))
      if (value !== undefined) Object.assign(copy, this.#keyword(place, keyword, value));
    const { $dynamicRef: reference } = schema;
    if (typeof reference === 'string')
      // A schema may have both, and all that is in its allOf.
      copy['allOf'] = [
        this.#reference(this.document.resolveDynamic(place, reference)),
        ...((copy['allOf'] ?? []) as readonly CheckedSchema[]),
      ];
    return copy;
  }

  #reference(target: Subschema): { readonly $ref: string } {
    this.#copy(target);
    return { $ref: `#${target.id}` };
  }

  #keep(place: Subschema, copy: CheckedSchema): CheckedSchema {
    this.#copies.set(place.id, copy);
    this.#lookup[`#${place.id}`] = copy;
    return copy;
  }

  #keyword(place: Subschema, keyword: string, value: Json): object {
    const below = (rest: string): CheckedSchema => this.#copy(this.document.below(place, `/${keyword}${rest}`));
    switch (KEYWORDS.get(keyword)) {
      case 'schema':
        return { [keyword]: below('') };
      case 'schemas':
        return { [keyword]: (value as readonly Json[]).map((_, at) => below(`/${at}`)) };
      case 'map of schemas':
        if (keyword === '$defs' || keyword === 'definitions') return {};
        return { [keyword]: keyword === 'patternProperties' ? byPattern(place, value, below) : byName(value, below) };
      case undefined:
        return {};
      default:
    }
    if (keyword === 'pattern') return { pattern: patternOf(place, keyword, value as string) };
    if (keyword === 'format') return JUDGED_FORMATS.has(value as string) ? { format: value } : {};
    if (keyword === '$ref') return this.#reference(this.document.resolve(place, value as string));
    return keyword.startsWith('$') ? {} : { [keyword]: value };
  }
}

type Copies = Record<string, CheckedSchema>;

function byName(schemas: Json, below: (rest: string) => CheckedSchema): Copies {
  const copies = Object.create(null) as Copies;
  for (const name of Object.keys(schemas as JsonObject)) copies[name] = below(`/${escaped(name)}`);
  return copies;
}

/** Patterns that translate alike hold together. */
function byPattern(place: Subschema, schemas: Json, below: (rest: string) => CheckedSchema): Copies {
  const copies = Object.create(null) as Copies;
  for (const [pattern, copy] of Object.entries(byName(schemas, below))) {
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
