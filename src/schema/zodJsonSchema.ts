import * as z from 'zod';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import { FORMATS } from './formats.js';
import { isEnforceable } from './patterns.js';

/** A schema of zod's, as a call's `schema`. */
export type AnswerSchema = z.core.$ZodType;

/**
 * The JSON Schema of what goes into a schema of zod's, without properties that it does not speak of. @throws UsageError
 * for what has none
 */
export function zodJsonSchema(schema: AnswerSchema): object {
  if (typeof (schema as unknown) !== 'object' || !('_zod' in schema))
    throw new UsageError(
      `schema: found ${found(schema)}, expected one of zod 4, such as z.object({ … }); a JSON Schema is a responseFormat`,
    );
  try {
    return z.toJSONSchema(schema, {
      io: 'input',
      override: ({
        zodSchema: {
          _zod: { def },
        },
        jsonSchema,
      }) => {
        if (def.type === 'object' && (def as z.core.$ZodObjectDef).catchall === undefined)
          jsonSchema.additionalProperties = false;
        // Some formats have patterns that look ahead, beside what is written for them.
        if (
          jsonSchema.format !== undefined &&
          FORMATS.has(jsonSchema.format) &&
          jsonSchema.pattern !== undefined &&
          !isEnforceable(jsonSchema.pattern)
        )
          delete jsonSchema.pattern;
        if (jsonSchema.format !== undefined && !FORMATS.has(jsonSchema.format)) {
          const format = formatOf(def, jsonSchema.format);
          if (format === undefined) delete jsonSchema.format;
          else jsonSchema.format = format;
        }
      },
    });
  } catch (error) {
    throw new UsageError(`schema: it has no JSON Schema: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** A schema of zod's, or a check, as far as it is about a text. */
interface TextRule {
  readonly type?: string;
  readonly check?: string;
  readonly format?: string;
  readonly pattern?: RegExp | undefined;
}

/** Formats that JSON Schema calls otherwise. */
const NAMES: ReadonlyMap<string, string> = new Map([['url', 'uri']]);

/**
 * Gives the format that is to be said of a text besides patterns. zod calls its checks formats, too, writes the last
 * one's name, and the patterns of all that have one; it looks at the value afterwards.
 */
function formatOf(def: z.core.$ZodTypeDef, written: string): string | undefined {
  const all: readonly TextRule[] = [def, ...(def.checks ?? []).map(({ _zod }) => _zod.def)];
  const formats = all.filter(({ format }) => format !== undefined);
  if (!formats.some(({ format }) => format === written)) return written;
  const other = formats.find(({ pattern }) => pattern === undefined || !isEnforceable(pattern.source))?.format;
  return other === undefined ? undefined : (NAMES.get(other) ?? other);
}

/** That of what comes out of it; what a transform makes may be anything. */
export function zodValueSchema(schema: AnswerSchema): object {
  return z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' });
}
