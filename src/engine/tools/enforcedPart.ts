import { EnforcedSchema } from '../../schema/EnforcedSchema.js';
import { UnsupportedSchema } from '../../schema/SchemaDocument.js';
import type { PartOfSchema } from './declaredTypes.js';

/** A part of a schema by itself; undefined where values cannot be held to it: the whole is looked at anyway. */
export function enforcedPart({ schema, root }: PartOfSchema): EnforcedSchema | undefined {
  const { $defs, definitions, $schema } = root;
  try {
    return new EnforcedSchema(
      typeof schema === 'object'
        ? {
            ...($schema !== undefined && { $schema }),
            ...($defs !== undefined && { $defs }),
            ...(definitions !== undefined && { definitions }),
            ...schema,
          }
        : schema,
    );
  } catch (error) {
    if (error instanceof UnsupportedSchema) return undefined;
    throw error;
  }
}
