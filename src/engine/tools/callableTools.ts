import { inTurns } from '../../collections/inTurns.js';
import { isObject } from '../../arguments/isObject.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { Tool } from '../../rows/tools.js';
import { ANSWER_BOUNDS, EnforcedSchema } from '../../schema/EnforcedSchema.js';
import { SCHEMA_LIMITS } from '../../schema/limits.js';
import { UnsupportedSchema } from '../../schema/SchemaDocument.js';
import type { CallableTool, Tools } from './ToolForm.js';

/** A tool that says nothing of its arguments has none. */
const NONE = { type: 'object', properties: {}, additionalProperties: false } as const;
/** The keywords of a schema that allow other properties than those it lists. */
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

/**
 * Tools by name, ready to be called. Gives the event loop its turn between them.
 * @throws ResponseFormatError for parameters that arguments cannot be held to, and for tools that are too much together
 */
export async function callableTools(tools: readonly Tool[]): Promise<Tools> {
  const callable = new Map<string, CallableTool>();
  const units = tools.reduce((sum, { parameters }) => sum + (JSON.stringify(parameters) ?? '').length, 0);
  if (units > SCHEMA_LIMITS.textUnits)
    throw new ResponseFormatError(
      `tools: found parameters of ${units} UTF-16 units together, expected at most ${SCHEMA_LIMITS.textUnits}`,
    );
  let steps = 0;
  for (const [at, tool] of tools.entries()) {
    const own = await callableTool(tool, `tools[${at}].function.parameters of ${tool.name}`);
    steps += own.schema.steps;
    if (steps > SCHEMA_LIMITS.steps)
      throw new ResponseFormatError(
        `tools: found ${tools.length} whose parameters take more than ${SCHEMA_LIMITS.steps} steps to read together, expected fewer, or simpler ones`,
      );
    callable.set(tool.name, own);
  }
  return callable;
}

async function callableTool({ name, parameters: given }: Tool, place: string): Promise<CallableTool> {
  const parameters = ofObject(given);
  try {
    return { name, parameters, schema: await inTurns(EnforcedSchema.inParts(parameters, ANSWER_BOUNDS)) };
  } catch (error) {
    if (!(error instanceof UnsupportedSchema)) throw error;
    throw new ResponseFormatError(`${place}: ${error.message}`, '', undefined, { cause: error });
  }
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
