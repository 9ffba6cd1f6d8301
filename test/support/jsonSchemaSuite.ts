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

/** The suite's folders with what their schemas leave out: which draft they are of. */
const DRAFTS = {
  '': undefined,
  draft4: 'http://json-schema.org/draft-04/schema#',
  draft6: 'http://json-schema.org/draft-06/schema#',
  draft7: 'http://json-schema.org/draft-07/schema#',
  'draft2019-09': 'https://json-schema.org/draft/2019-09/schema',
} as const;

const of = (folder: keyof typeof DRAFTS): readonly SuiteCase[] =>
  readdirSync(`${FOLDER}/${folder}`)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) =>
      (
        JSON.parse(readFileSync(`${FOLDER}/${folder}/${file}`, 'utf8')) as readonly (Omit<SuiteCase, 'name'> & {
          readonly description: string;
        })[]
      ).map(({ description, schema, tests }) => ({
        name: `${folder === '' ? '' : `${folder}/`}${file}: ${description}`,
        schema:
          typeof schema === 'object' && DRAFTS[folder] !== undefined ? { $schema: DRAFTS[folder], ...schema } : schema,
        tests: tests.filter((test) => !test.description.includes('only an annotation')),
      })),
    );

/**
 * The schemas of JSON-Schema-Test-Suite, 2020-12 and the drafts before, with what is valid and what is not. That
 * formats say nothing is left out: here they are enforced.
 */
export const suite: readonly SuiteCase[] = (Object.keys(DRAFTS) as (keyof typeof DRAFTS)[]).flatMap(of);

/** The schema, or why it cannot be enforced. */
export function enforced(schema: unknown): EnforcedSchema | UnsupportedSchema {
  try {
    return new EnforcedSchema(schema);
  } catch (error) {
    if (error instanceof UnsupportedSchema) return error;
    throw error;
  }
}
