import * as z from 'zod';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import { zodJsonSchema, type AnswerSchema } from '../../schema/zodJsonSchema.js';
import type { ReadAnswer } from '../tools/withCalls.js';

/** Makes of values what zod makes of them: defaults, transforms, and what it checks beside. */
function zodValue(schema: AnswerSchema): (read: ReadAnswer) => ReadAnswer {
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
export function withSchema<
  Options extends { readonly schema?: AnswerSchema; readonly responseFormat?: ResponseFormat },
>(options: Options): { readonly options: Options; readonly refine?: ReturnType<typeof zodValue> } {
  const { schema } = options;
  return schema === undefined
    ? { options }
    : {
        options: { ...options, responseFormat: { type: 'json_schema', schema: zodJsonSchema(schema) } },
        refine: zodValue(schema),
      };
}
