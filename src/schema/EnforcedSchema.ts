import { isNativeError } from 'node:util/types';
import { drained, type Work } from '../collections/drained.js';
import { inTurns } from '../collections/inTurns.js';
import { StepLimit, Steps } from '../regex/Steps.js';
import { Expander } from './Expander.js';
import { type Json, subschemas } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { lowered, Nodes } from './lowered.js';
import type { AnswerBounds, MaskBounds } from './Node.js';
import { SchemaDocument, type Subschema, UnsupportedSchema } from './SchemaDocument.js';
import { Values } from './Values.js';

/** Bounds that end answers by default. */
export const ANSWER_BOUNDS: AnswerBounds = { stringLength: 8192, items: 1024 };

/**
 * A JSON Schema that answers are held to: by a grammar as far as one can say it, and by a look at the whole value. Keys
 * stand in the schema's order, numbers are written without an exponent, nothing stands between the parts;
 * docs/structured-output.md says what else is fixed.
 */
export class EnforcedSchema {
  /** The schema that the grammar is made of: a JSON Schema of few keywords, with every choice written out. */
  readonly grammar: Json;
  /** Pointers of what the grammar does not say, or not all of: the look at the whole value does. */
  readonly left: readonly string[];
  readonly #document: SchemaDocument;
  readonly #values: Values;

  /** @throws UnsupportedSchema with the pointer of what cannot be enforced, or is no schema, or too large */
  constructor(
    schema: unknown,
    private readonly bounds: AnswerBounds = ANSWER_BOUNDS,
    { document, values, grammar, left }: Read = drained(read(schema, bounds)),
  ) {
    this.#document = document;
    this.#values = values;
    this.grammar = grammar;
    this.left = left;
  }

  /** The same, made in slices. @throws UnsupportedSchema */
  static *inParts(schema: unknown, bounds: AnswerBounds): Work<EnforcedSchema> {
    return new EnforcedSchema(schema, bounds, yield* read(schema, bounds));
  }

  /** Steps that it took to read it, and to make the grammar. */
  get steps(): number {
    return this.#document.steps.taken;
  }

  /**
   * Says in words what is wrong with a value; undefined where it is valid.
   * @param steps that it may take, where others are looked at as well
   */
  problem(value: unknown, steps = new Steps(SCHEMA_LIMITS.valueSteps)): string | undefined {
    try {
      return drained(this.#values.problem(value as Json, this.#document.root, steps));
    } catch (error) {
      if (isBeyond(error)) return `it cannot be looked at in ${SCHEMA_LIMITS.valueSteps} steps`;
      throw error;
    }
  }

  /**
   * A grammar of which the engine is asked less: of a string one pattern, and not its length besides. The look at the
   * whole value does the rest.
   */
  *looser(): Work<Json> {
    return (yield* this.#lower(this.#document.root)).grammar;
  }

  /**
   * Where in the schema the engine refuses to go on: the pointer of the innermost schema that it does not take by
   * itself, as far as a few tries tell.
   */
  async refusedAt(isTaken: (grammar: Json) => Promise<boolean>): Promise<string> {
    let place = this.#document.root;
    const tried = new Set<Subschema>();
    for (let next: Subschema | undefined = place; next !== undefined;) {
      place = next;
      next = undefined;
      for (const [rest] of subschemas(typeof place.schema === 'boolean' ? {} : place.schema)) {
        const below = this.#document.below(place, rest);
        if (tried.size >= SCHEMA_LIMITS.refusalTries || tried.has(below)) continue;
        tried.add(below);
        const grammar = await inTurns(this.#grammarAt(below));
        if (grammar === undefined || (await isTaken(grammar))) continue;
        next = below;
        break;
      }
    }
    return place.pointer;
  }

  /** None where no value satisfies it. */
  *#grammarAt(place: Subschema): Work<Json | undefined> {
    try {
      return (yield* withinSteps(this.#lower(place)))?.value.grammar;
    } catch (error) {
      if (error instanceof UnsupportedSchema) return undefined;
      throw error;
    }
  }

  #lower(place: Subschema): Work<Lowered> {
    return lower(this.#document, this.#values, place, { ...this.bounds, combined: false });
  }
}

interface Lowered {
  readonly grammar: Json;
  readonly left: readonly string[];
}

/** A schema, read, with its grammar. */
interface Read extends Lowered {
  readonly document: SchemaDocument;
  readonly values: Values;
}

function* read(schema: unknown, bounds: AnswerBounds): Work<Read> {
  const made = yield* withinSteps(readAndLowered(schema, bounds));
  if (made === undefined) throw tooLarge();
  return made.value;
}

function* readAndLowered(schema: unknown, bounds: AnswerBounds): Work<Read> {
  const document = yield* SchemaDocument.inParts(schema);
  const values = yield* Values.inParts(document, document.steps);
  return { document, values, ...(yield* lower(document, values, document.root, { ...bounds, combined: true })) };
}

function* lower(document: SchemaDocument, values: Values, place: Subschema, bounds: MaskBounds): Work<Lowered> {
  const expander = new Expander(document);
  const nodes = new Nodes(expander, values, place, bounds);
  const whole = nodes.of([{ schema: place, holds: true }]);
  yield* nodes.settle();
  if (!whole.possible)
    throw new UnsupportedSchema('', 'false', 'found a schema that no value satisfies, or none that can be written');
  return { grammar: yield* lowered(whole, nodes), left: [...expander.left] };
}

function tooLarge(): UnsupportedSchema {
  return new UnsupportedSchema(
    '',
    undefined,
    `found a schema that takes more than ${SCHEMA_LIMITS.steps} steps to read, expected a simpler one`,
  );
}

/**
 * Does work that depends on somebody else's schema.
 * @returns undefined where it takes more steps, or a deeper stack, than it may
 */
function* withinSteps<T>(work: Work<T>): Work<{ readonly value: T } | undefined> {
  try {
    return { value: yield* work };
  } catch (error) {
    if (isBeyond(error)) return undefined;
    throw error;
  }
}

function isBeyond(error: unknown): boolean {
  // By name: in a context of its own, as tests have it, V8's errors are not instances of this one's classes.
  return error instanceof StepLimit || (isNativeError(error) && error.name === 'RangeError');
}
