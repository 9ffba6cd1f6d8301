import type { Steps } from '../regex/Steps.js';
import type { Goal } from './Alternative.js';
import { escaped, KEYWORDS, type Json, type JsonObject } from './keywords.js';
import { bare, type SchemaDocument, type Subschema } from './SchemaDocument.js';
import { PatternTests } from './PatternTests.js';
import { translated } from './patterns.js';
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

  /** @param steps of all that is looked at before there are others */
  constructor(
    private readonly document: SchemaDocument,
    steps: Steps,
  ) {
    this.#validation = new Validation(this.#lookup, this.#patterns, steps);
  }

  /** What is looked at from now on takes its steps from these. */
  set steps(steps: Steps) {
    this.#validation.steps = steps;
  }

  /** Whether a text has a match of a translated pattern. @throws StepLimit */
  matches(pattern: string, text: string): boolean {
    return this.#patterns.test(pattern, text, this.#validation.steps);
  }

  /** Whether a value does what the goal says. */
  satisfies(value: Json, { schema, holds }: Goal): boolean {
    return (this.problem(value, schema) === undefined) === holds;
  }

  /** What is wrong with a value, in words; undefined where nothing is. @throws StepLimit */
  problem(value: Json, schema: Subschema): string | undefined {
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
    return copy;
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
        if (keyword === 'allOf' && (place.schema as JsonObject)['$dynamicRef'] !== undefined) return {};
        return { [keyword]: (value as readonly Json[]).map((_, at) => below(`/${at}`)) };
      case 'map of schemas':
        if (keyword === '$defs' || keyword === 'definitions') return {};
        return { [keyword]: keyword === 'patternProperties' ? byPattern(value, below) : byName(value, below) };
      case undefined:
        return {};
      default:
    }
    if (keyword === 'pattern') return { pattern: translated(value as string) };
    if (keyword !== '$ref' && keyword !== '$dynamicRef') return keyword.startsWith('$') ? {} : { [keyword]: value };
    const target =
      keyword === '$ref'
        ? this.document.resolve(place, value as string)
        : this.document.resolveDynamic(place, value as string);
    this.#copy(target);
    const reference = { $ref: `#${target.id}` };
    if (keyword === '$ref') return reference;
    // A schema may have both, and all that is in its allOf.
    const { allOf = [] } = place.schema as { readonly allOf?: readonly Json[] };
    return { allOf: [reference, ...allOf.map((_, at) => this.#copy(this.document.below(place, `/allOf/${at}`)))] };
  }
}

type Copies = Record<string, CheckedSchema>;

function byName(schemas: Json, below: (rest: string) => CheckedSchema): Copies {
  const copies = Object.create(null) as Copies;
  for (const name of Object.keys(schemas as JsonObject)) copies[name] = below(`/${escaped(name)}`);
  return copies;
}

/** PatternTests that translate alike hold together. */
function byPattern(schemas: Json, below: (rest: string) => CheckedSchema): Copies {
  const copies = Object.create(null) as Copies;
  for (const [pattern, copy] of Object.entries(byName(schemas, below))) {
    const [name, other] = [translated(pattern), copies[translated(pattern)]];
    copies[name] = other === undefined ? copy : { allOf: [other, copy] };
  }
  return copies;
}
