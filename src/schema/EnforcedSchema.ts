import { isNativeError } from 'node:util/types';
import { StepLimit, Steps } from '../regex/Steps.js';
import { Expander } from './Expander.js';
import type { Json } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { lowered, Nodes } from './lowered.js';
import { SchemaDocument, UnsupportedSchema } from './SchemaDocument.js';
import { Values } from './Values.js';

/**
 * A JSON Schema (2020-12) that answers can be held to: every value that the grammar lets through is valid. Keys stand
 * in the schema's order, numbers are written without an exponent, nothing stands between the parts;
 * docs/structured-output.md says what else is fixed.
 */
export class EnforcedSchema {
  /** What the grammar is made of: a JSON Schema of few keywords, with every choice written out. */
  readonly grammar: Json;
  readonly #document: SchemaDocument;
  readonly #values: Values;

  /** @throws UnsupportedSchema with the pointer of what cannot be enforced, or is no schema, or too large */
  constructor(schema: unknown) {
    this.#document = new SchemaDocument(schema);
    this.#values = new Values(this.#document, this.#document.steps);
    const made = withinSteps(() => this.#lower());
    if (made === undefined)
      throw new UnsupportedSchema(
        '',
        undefined,
        `found a schema that takes more than ${SCHEMA_LIMITS.steps} steps to read, expected a simpler one`,
      );
    this.grammar = made.value;
  }

  /** What is wrong with a value, in words; undefined where it is valid. */
  problem(value: unknown): string | undefined {
    const { root } = this.#document;
    this.#values.steps = new Steps(SCHEMA_LIMITS.valueSteps);
    const looked = withinSteps(() => this.#values.problem(value as Json, root));
    return looked === undefined ? `it cannot be looked at in ${SCHEMA_LIMITS.valueSteps} steps` : looked.value;
  }

  #lower(): Json {
    const { root } = this.#document;
    const nodes = new Nodes(new Expander(this.#document), this.#values, root);
    const whole = nodes.of([{ schema: root, holds: true }]);
    nodes.settle();
    if (!whole.possible) throw new UnsupportedSchema('', 'false', 'found a schema that no value satisfies');
    return lowered(whole, nodes);
  }
}

/**
 * Does work that depends on somebody else's schema.
 * @returns undefined where it takes more steps, or a deeper stack, than it may
 */
function withinSteps<T>(work: () => T): { readonly value: T } | undefined {
  try {
    return { value: work() };
  } catch (error) {
    // By name: in a context of its own, as tests have it, V8's errors are not instances of this one's classes.
    if (error instanceof StepLimit || (isNativeError(error) && error.name === 'RangeError')) return undefined;
    throw error;
  }
}
