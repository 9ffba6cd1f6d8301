import { isObject } from '../../arguments/isObject.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { Tool } from '../../rows/tools.js';
import { EnforcedSchema } from '../../schema/EnforcedSchema.js';
import { UnsupportedSchema } from '../../schema/SchemaDocument.js';
import type { Tools } from './ToolForm.js';

/** A tool that says nothing of its arguments has none. */
const NONE = { type: 'object', properties: {}, additionalProperties: false } as const;
/** What says of a schema that it allows other properties than those it lists. */
const MORE = [
  'additionalProperties',
  'patternProperties',
  'unevaluatedProperties',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  '$ref',
  'dependentSchemas',
];

/** Tools by name, ready to be called. @throws ResponseFormatError for parameters that arguments cannot be held to */
export function callableTools(tools: readonly Tool[]): Tools {
  return new Map(
    tools.map(({ name, parameters }, at) => {
      const own = ofObject(parameters);
      try {
        return [name, { name, parameters: own, schema: new EnforcedSchema(own) }];
      } catch (error) {
        if (!(error instanceof UnsupportedSchema)) throw error;
        throw new ResponseFormatError(`tools[${at}].function.parameters of ${name}: ${error.message}`, '', undefined, {
          cause: error,
        });
      }
    }),
  );
}

/**
 * The schema of arguments: they are an object, and where properties are listed and nothing else is said, of these
 * alone, for others would be made up.
 */
function ofObject(parameters: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(parameters)) return NONE;
  const { type, properties } = parameters;
  const typed = type === undefined || type === null ? { ...parameters, type: 'object' } : parameters;
  if (!isObject(properties) || MORE.some((name) => Object.hasOwn(parameters, name))) return typed;
  return { ...typed, additionalProperties: false };
}
