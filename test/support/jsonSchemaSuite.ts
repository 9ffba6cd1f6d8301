import { readdirSync, readFileSync } from 'node:fs';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';
import { UnsupportedSchema } from '../../src/schema/SchemaDocument.js';

export interface SuiteCase {
  /** `file: description`. */
  readonly name: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
}

const FOLDER = 'test/fixtures/json-schema-test-suite';

/**
 * The schemas of JSON-Schema-Test-Suite, 2020-12, with what is valid and what is not. That formats say nothing is left
 * out: here they are enforced.
 */
export const suite: readonly SuiteCase[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .flatMap((file) =>
    (
      JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8')) as readonly (Omit<SuiteCase, 'name'> & {
        readonly description: string;
      })[]
    ).map(({ description, schema, tests }) => ({
      name: `${file}: ${description}`,
      schema,
      tests: tests.filter((test) => !test.description.includes('only an annotation')),
    })),
  );

/** The schema, or why it cannot be enforced. */
export function enforced(schema: unknown): EnforcedSchema | UnsupportedSchema {
  try {
    return new EnforcedSchema(schema);
  } catch (error) {
    if (error instanceof UnsupportedSchema) return error;
    throw error;
  }
}
