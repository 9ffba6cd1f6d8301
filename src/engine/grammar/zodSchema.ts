import { z } from 'zod';
import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import { FORMATS } from '../../schema/formats.js';
import { isEnforceable } from '../../schema/patterns.js';
import type { ReadAnswer } from './AnswerFormat.js';

/** A schema of zod's, as a call's `schema`. */
export type AnswerSchema = z.core.$ZodType;

/** The format that zod's schema comes to: its own JSON Schema of what goes in, without properties that it does not speak of. @throws UsageError for what has none */
export function zodFormat(schema: AnswerSchema): ResponseFormat {
  if (typeof (schema as unknown) !== 'object' || !('_zod' in schema)) throw new UsageError(`schema: found ${found(schema)}, expected one of zod 4, such as z.object({ … }); a JSON Schema is a responseFormat`);
  try {
    return {
      type: 'json_schema',
      schema: z.toJSONSchema(schema, {
        io: 'input',
        override: ({ zodSchema: { _zod: { def } }, jsonSchema }) => {
          if (def.type === 'object' && (def as z.core.$ZodObjectDef).catchall === undefined) jsonSchema.additionalProperties = false;
          // Some formats have patterns that look ahead, beside what is written for them.
          if (jsonSchema.format !== undefined && FORMATS.has(jsonSchema.format) && jsonSchema.pattern !== undefined && !isEnforceable(jsonSchema.pattern)) delete jsonSchema.pattern;
        },
      }),
    };
  } catch (error) {
    throw new UsageError(`schema: it has no JSON Schema: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** What zod makes of values: defaults, transforms, and what it checks beside. */
export function zodValue(schema: AnswerSchema): (read: ReadAnswer) => ReadAnswer {
  return (read) => {
    if ('problem' in read) return read;
    try {
      const parsed = z.core.safeParse(schema, read.value);
      return parsed.success ? { value: parsed.data } : { problem: z.core.prettifyError(parsed.error) };
    } catch (error) {
      return { problem: `the schema threw: ${error instanceof Error ? error.message : String(error)}` };
    }
  };
}

/** A run's options with the format that its schema comes to, and what is made of values then. */
export function withSchema<Options extends { readonly schema?: AnswerSchema; readonly responseFormat?: ResponseFormat }>(options: Options): { readonly options: Options; readonly refine?: ReturnType<typeof zodValue> } {
  const { schema } = options;
  return schema === undefined ? { options } : { options: { ...options, responseFormat: zodFormat(schema) }, refine: zodValue(schema) };
}
