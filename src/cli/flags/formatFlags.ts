import { Option, type Command } from 'commander';
import {
  bundledSchema,
  checkJobOptions,
  checkResponseFormat,
  EnforcedSchema,
  ResponseFormatError,
  UsageError,
  type GenerateOptions,
  type Question,
  type ResponseFormat,
} from '../library.js';
import { wholeNumber } from './parsers.js';
import { jsonOf, textOf } from './textFiles.js';

export interface FormatFlags {
  readonly jsonSchema?: string;
  readonly regex?: string;
  readonly grammar?: string;
  readonly choices?: string;
  readonly questions?: string;
  readonly confidence?: 'on' | 'off';
  readonly schemaDir?: string;
  readonly maxStringLength?: number;
  readonly maxArrayItems?: number;
  readonly regexClasses?: 'unicode' | 'ascii';
  readonly schemaInPrompt: 'on' | 'off';
}

const FLAGS = {
  jsonSchema: '--json-schema',
  regex: '--regex',
  grammar: '--grammar',
  choices: '--choices',
  questions: '--questions',
} as const;

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
    'answers are JSON that satisfies it; results have its `value`, tables a column for each property (default: none)',
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
  command.addOption(
    new Option(
      '--regex-classes <unicode|ascii>',
      'what \\d, \\w and \\s of --regex are: digits, letters and spaces of all of Unicode, or those of ASCII (default: unicode)',
    ).choices(['unicode', 'ascii']),
  );
  command.option('--grammar <file>', "answers follow it; in Lark's notation, as llguidance reads it (default: none)");
  command.option('--choices <a,b,c>', 'answers are one of these (default: none)');
  command.option(
    '--questions <file>',
    'several questions about each row: a list of {"name", "text"} and each its "choices", "schema" or "pattern"; results have `answers`, tables a column for each (default: none)',
  );
  command.addOption(
    new Option(
      '--confidence <on|off>',
      'on: results say how sure the model was of their answers, from 0 to 1 (default: on with --questions; else off)',
    ).choices(['on', 'off']),
  );
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
export function formatFiles({ jsonSchema, grammar, questions }: FormatFlags): {
  readonly 'json-schema': string | undefined;
  readonly grammar: string | undefined;
  readonly questions: string | undefined;
} {
  return {
    'json-schema': jsonSchema !== undefined && /^\s*(\{|true\s*$|false\s*$)/.test(jsonSchema) ? undefined : jsonSchema,
    grammar,
    questions: questions !== undefined && /^\s*\[/.test(questions) ? undefined : questions,
  };
}

/**
 * Turns the flags into `generate` options, with the files that they name read.
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
  if (flags.regexClasses !== undefined && flags.regex === undefined)
    throw new UsageError('found --regex-classes without --regex, expected both: it says more of that expression');
  const written = jsonOf(
    '--json-schema',
    await textOf(['--json-schema', 'a file, or the JSON of a schema'], flags.jsonSchema, files['json-schema'], signal),
  );
  const schema =
    flags.schemaDir === undefined || written === undefined ? written : await bundled(written, flags.schemaDir);
  const grammar = await textOf(['--grammar', 'a file'], undefined, files.grammar, signal);
  const format = formatOf(flags, schema, grammar);
  const questions = await questionsOf(flags, files.questions, signal);
  return {
    ...(format && { responseFormat: format }),
    ...(questions && { questions }),
    ...(flags.confidence !== undefined && { confidence: flags.confidence === 'on' }),
    // Rows may bring formats of their own.
    ...(flags.schemaInPrompt === 'on' && { schemaInPrompt: true }),
  };
}

/** Gives the questions rows are asked, checking that answers can be held to them. @throws UsageError, JobFileError */
async function questionsOf(
  { questions: given }: FormatFlags,
  file: string | undefined,
  signal: AbortSignal,
): Promise<readonly Question[] | undefined> {
  const called = file === undefined ? '--questions' : `--questions ${file}`;
  const text = await textOf(['--questions', 'a file, or a JSON array'], given, file, signal);
  const questions = jsonOf(called, text);
  if (questions === undefined) return undefined;
  try {
    checkJobOptions({ generate: { questions: questions as readonly Question[] } });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`${called}: ${error.message.replace(/^generate\./, '')}`, { cause: error });
  }
  const list = questions as readonly Question[];
  for (const [at, { name, choices, schema, pattern }] of list.entries()) {
    try {
      if (choices) await checkResponseFormat({ type: 'choices', choices });
      if (schema !== undefined) await checkResponseFormat({ type: 'json_schema', schema });
      if (pattern !== undefined) await checkResponseFormat({ type: 'regex', regex: pattern });
    } catch (error) {
      if (!(error instanceof ResponseFormatError)) throw error;
      const member = choices ? 'choices' : schema === undefined ? 'pattern' : 'schema';
      throw new UsageError(`${called}: questions[${at}] (${JSON.stringify(name)}).${member}: ${error.message}`, {
        cause: error,
      });
    }
  }
  return list;
}

async function bundled(schema: unknown, folder: string): Promise<unknown> {
  try {
    return await bundledSchema(schema, folder);
  } catch (error) {
    throw inWordsOfFlag(error);
  }
}

function formatOf(
  { regex, regexClasses, choices, maxStringLength, maxArrayItems }: FormatFlags,
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
  if (regex !== undefined) return { type: 'regex', regex, ...(regexClasses && { classes: regexClasses }) };
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
