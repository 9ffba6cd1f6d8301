import { isNativeError } from 'node:util/types';
import { createContext, Script } from 'node:vm';
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
    this.#values = new Values(this.#document);
    const made = withinTime(SCHEMA_LIMITS.milliseconds, () => this.#lower());
    if (made === undefined)
      throw new UnsupportedSchema(
        '',
        undefined,
        `found a schema that takes longer than ${SCHEMA_LIMITS.milliseconds} ms to read, expected a simpler one`,
      );
    this.grammar = made.value;
  }

  /** What is wrong with a value, in words; undefined where it is valid. */
  problem(value: unknown): string | undefined {
    const { root } = this.#document;
    const looked = withinTime(SCHEMA_LIMITS.milliseconds, () => this.#values.problem(value as Json, root));
    return looked === undefined ? `it cannot be looked at within ${SCHEMA_LIMITS.milliseconds} ms` : looked.value;
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

const sandbox: { work: (() => void) | undefined } = { work: undefined };
const context = createContext(sandbox);
const script = new Script('work()');

/**
 * Does work whose time depends on somebody else's pattern. V8's own interrupt ends it, also inside of a regular
 * expression that backtracks; the clock costs some 50 µs.
 * @returns undefined where it did not come to an end, or to the end of the stack
 */
function withinTime<T>(milliseconds: number, work: () => T): { readonly value: T } | undefined {
  let result: { value: T } | undefined;
  const outer = sandbox.work;
  sandbox.work = () => {
    result = { value: work() };
  };
  try {
    script.runInContext(context, { timeout: milliseconds });
    return result;
  } catch (error) {
    // By name: in a context of its own, as tests have it, V8's errors are not instances of this one's classes.
    if (
      isNativeError(error) &&
      (error.name === 'RangeError' || (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
    )
      return undefined;
    throw error;
  } finally {
    sandbox.work = outer;
  }
}
