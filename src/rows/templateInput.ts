import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { plainCopy } from '../arguments/jsonNumbers.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import type { PromptOptions } from '../Row.js';

/** The input of a chat template beside messages. */
type TemplateInput = Pick<PromptOptions, 'tools' | 'templateArgs' | 'now'>;

/** Variables of chat templates that are not the caller's to set. */
const OURS: ReadonlySet<string> = new Set([
  'messages',
  'tools',
  'add_generation_prompt',
  'true',
  'True',
  'false',
  'False',
  'none',
  'None',
  'raise_exception',
  'range',
  'strftime_now',
  'namespace',
]);

/**
 * The row's own tools, else the run's; variables of both, of which the row's go first. Plain JSON data. @throws
 * RowError
 */
export function templateInput(row: Omit<TemplateInput, 'now'>, options: TemplateInput): TemplateInput {
  const tools = checkedTools(row.tools) ?? checkedTools(options.tools);
  const args = checkedTemplateArgs(row.templateArgs);
  const defaults = checkedTemplateArgs(options.templateArgs);
  return {
    ...(tools && { tools }),
    ...((args ?? defaults) && { templateArgs: { ...defaults, ...args } }),
    ...(options.now !== undefined && { now: options.now }),
  };
}

/** Checks what a whole run is told. @throws UsageError */
export function checkTemplateInput(input: TemplateInput): void {
  try {
    templateInput({}, input);
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message) : error;
  }
}

function checkedTools(tools: unknown): readonly unknown[] | undefined {
  if (tools === undefined || tools === null) return undefined;
  const plain = plainJson('tools', tools);
  if (Array.isArray(plain) && plain.every(isObject)) return plain;
  throw new RowError(
    'invalid-parameter',
    `tools: found ${found(plain)}, expected an array of objects that describe tools`,
  );
}

function checkedTemplateArgs(args: unknown): Readonly<Record<string, unknown>> | undefined {
  if (args === undefined || args === null) return undefined;
  const plain = plainJson('templateArgs', args);
  if (!isObject(plain))
    throw new RowError(
      'invalid-parameter',
      `templateArgs: found ${found(plain)}, expected an object with variables of the chat template`,
    );
  const ours = Object.keys(plain).find((name) => OURS.has(name));
  if (ours !== undefined)
    throw new RowError(
      'invalid-parameter',
      `templateArgs: found ${found(ours)}, expected variables of the chat template that are not set otherwise`,
    );
  return plain;
}

/**
 * A copy that is what JSON makes of it: nobody can change it any more, and nothing in it is a program. @throws RowError
 */
export function plainJson(name: string, value: unknown): unknown {
  try {
    return plainCopy(value);
  } catch (error) {
    throw new RowError('invalid-parameter', `${name}: found ${found(value)}, expected what can be written as JSON`, {
      cause: error,
    });
  }
}
