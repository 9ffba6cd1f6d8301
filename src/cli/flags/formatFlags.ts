import { Option, type Command } from 'commander';
import {
  bundledSchema,
  EnforcedSchema,
  ResponseFormatError,
  UsageError,
  type GenerateOptions,
  type ResponseFormat,
} from '../library.js';
import { wholeNumber } from './parsers.js';
import { jsonOf, textOf } from './textFiles.js';

export interface FormatFlags {
  readonly jsonSchema?: string;
  readonly regex?: string;
  readonly grammar?: string;
  readonly choices?: string;
  readonly schemaDir?: string;
  readonly maxStringLength?: number;
  readonly maxArrayItems?: number;
  readonly schemaInPrompt: 'on' | 'off';
}

const FLAGS = { jsonSchema: '--json-schema', regex: '--regex', grammar: '--grammar', choices: '--choices' } as const;

/** Flags that say more of `--json-schema`. */
const SCHEMA_FLAGS = {
  schemaDir: '--schema-dir',
  maxStringLength: '--max-string-length',
  maxArrayItems: '--max-array-items',
} as const;

export function addFormatFlags(command: Command): void {
  command.optionsGroup('Formats of answers (one of these; rows may bring their own `responseFormat`):');
  command.option(
    '--json-schema <file|text>',
    'answers are JSON that satisfies it, and results have its `value`, tables a column for each property; what cannot be enforced is refused with its place in the schema (default: none)',
  );
  command.option(
    '--schema-dir <dir>',
    'a folder whose *.json files `--json-schema` may refer to, by their `$id` or by their path; nothing is fetched (default: none)',
  );
  command.option(
    '--max-string-length <n>',
    'most characters of a string that the schema does not bound (default: 8192)',
    wholeNumber(1),
  );
  command.option(
    '--max-array-items <n>',
    'most items of an array that the schema does not bound (default: 1024)',
    wholeNumber(1),
  );
  command.option('--regex <text>', 'answers match it as a whole (default: none)');
  command.option('--grammar <file>', "answers follow it; in Lark's notation, as llguidance reads it (default: none)");
  command.option('--choices <a,b,c>', 'answers are one of these (default: none)');
  command.addOption(
    new Option(
      '--schema-in-prompt <on|off>',
      'on: the model is told the schema, or the choices, at the end of the system message',
    )
      .choices(['on', 'off'])
      .default('off'),
  );
}

/** Files that the flags name: what is no JSON object is a path. */
export function formatFiles({ jsonSchema, grammar }: FormatFlags): {
  readonly 'json-schema': string | undefined;
  readonly grammar: string | undefined;
} {
  return {
    'json-schema': jsonSchema !== undefined && /^\s*(\{|true\s*$|false\s*$)/.test(jsonSchema) ? undefined : jsonSchema,
    grammar,
  };
}

/**
 * What the flags say to `generate`, with the files that they name read.
 * @throws UsageError for several of them, and for a schema that cannot be enforced, with the place; JobFileError for a
 * file that cannot be read
 */
export async function formatOptions(flags: FormatFlags, signal: AbortSignal): Promise<GenerateOptions> {
  const given = (Object.keys(FLAGS) as (keyof typeof FLAGS)[]).filter((name) => flags[name] !== undefined);
  if (given.length > 1)
    throw new UsageError(
      `found ${given.map((name) => FLAGS[name]).join(' and ')}, expected one of them: an answer is held to one format`,
    );
  const files = formatFiles(flags);
  if (flags.jsonSchema === undefined)
    for (const [name, flag] of Object.entries(SCHEMA_FLAGS))
      if (flags[name as keyof typeof SCHEMA_FLAGS] !== undefined)
        throw new UsageError(`found ${flag} without --json-schema, expected both: it says more of that schema`);
  const written = jsonOf(
    '--json-schema',
    await textOf(['--json-schema', 'a file, or the JSON of a schema'], flags.jsonSchema, files['json-schema'], signal),
  );
  const schema =
    flags.schemaDir === undefined || written === undefined ? written : await bundled(written, flags.schemaDir);
  const grammar = await textOf(['--grammar', 'a file'], undefined, files.grammar, signal);
  const format = formatOf(flags, schema, grammar);
  if (format === undefined) {
    // Rows may bring some.
    return flags.schemaInPrompt === 'on' ? { schemaInPrompt: true } : {};
  }
  return { responseFormat: format, ...(flags.schemaInPrompt === 'on' && { schemaInPrompt: true }) };
}

async function bundled(schema: unknown, folder: string): Promise<unknown> {
  try {
    return await bundledSchema(schema, folder);
  } catch (error) {
    throw inWordsOfFlag(error);
  }
}

function formatOf(
  { regex, choices, maxStringLength, maxArrayItems }: FormatFlags,
  schema: unknown,
  grammar: string | undefined,
): ResponseFormat | undefined {
  if (schema !== undefined) {
    checkSchema(schema);
    return {
      type: 'json_schema',
      schema,
      ...(maxStringLength !== undefined && { maxStringLength }),
      ...(maxArrayItems !== undefined && { maxArrayItems }),
    };
  }
  if (regex !== undefined) return { type: 'regex', regex };
  if (grammar !== undefined) return { type: 'grammar', grammar };
  if (choices === undefined) return undefined;
  const list = choices.split(',').map((choice) => choice.trim());
  if (list.includes(''))
    throw new UsageError(
      `--choices: found an empty choice in ${JSON.stringify(choices)}, expected texts with commas between`,
    );
  return { type: 'choices', choices: list };
}

/** Before anything is loaded. */
function checkSchema(schema: unknown): void {
  try {
    new EnforcedSchema(schema);
  } catch (error) {
    throw inWordsOfFlag(error);
  }
}

function inWordsOfFlag(error: unknown): unknown {
  return error instanceof ResponseFormatError
    ? new UsageError(`--json-schema: ${error.message}`, { cause: error })
    : error;
}
