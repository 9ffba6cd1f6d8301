import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import type { ToolOptions } from '../Row.js';
import { isAbsent } from './rowFields.js';
import { plainJson } from './templateInput.js';

/** A tool that an answer may call. */
export interface Tool {
  readonly name: string;
  readonly description?: unknown;
  /** A JSON Schema of its arguments, which are an object. */
  readonly parameters?: unknown;
}

/** Tools that an answer may call, or has to. */
export interface AskedTools {
  readonly tools: readonly Tool[];
  readonly choice: 'auto' | 'required';
  /** True where an answer may have several calls. */
  readonly parallel: boolean;
}

/** Names that have a meaning in no form of calls: those of OpenAI's and of the Model Context Protocol. */
const NAME = /^[A-Za-z0-9_.\-/]{1,128}$/;
/** Most tools that a row may choose among. */
const MOST_TOOLS = 1024;

const MODES = ['none', 'auto', 'required'] as const;
const EXPECTED =
  'none, auto, required, {type: "function", function: {name}} or {type: "allowed_tools", allowed_tools: {mode, tools}}';

/**
 * Gives the tools that a row's answer may call: the row's own tools and choice, else the run's. Undefined where it
 * calls none.
 * @throws RowError
 */
export function askedTools(row: ToolOptions, options: ToolOptions): AskedTools | undefined {
  const given: unknown = row.tools ?? options.tools;
  const choice: unknown = row.toolChoice ?? options.toolChoice;
  const several: unknown = row.parallelToolCalls ?? options.parallelToolCalls ?? true;
  if (typeof several !== 'boolean') return refuse('parallelToolCalls', several, 'true or false');
  const { mode, names, one } = choiceOf(isAbsent(choice) ? 'auto' : plainJson('toolChoice', choice));
  if (mode === 'none') return undefined;
  const tools = isAbsent(given) ? [] : toolsOf(plainJson('tools', given));
  if (tools.length === 0) {
    if (mode === 'auto' && names === undefined) return undefined;
    return refuse('toolChoice', choice, 'none or auto where there are no tools');
  }
  const unknown = names?.find((name) => !tools.some((tool) => tool.name === name));
  if (unknown !== undefined) return refuse('toolChoice', unknown, `the name of one of the tools, ${listed(tools)}`);
  return {
    tools: names === undefined ? tools : tools.filter(({ name }) => names.includes(name)),
    choice: mode,
    parallel: several && !one,
  };
}

/** Tells whether a row's template is told of its tools: where it must not call them it is not. @throws RowError */
export function offersTools(row: ToolOptions, options: ToolOptions): boolean {
  const choice: unknown = row.toolChoice ?? options.toolChoice;
  return isAbsent(choice) || choiceOf(plainJson('toolChoice', choice)).mode !== 'none';
}

/** Checks a whole run's tool options. @throws UsageError */
export function checkToolOptions(options: ToolOptions): void {
  try {
    const { tools, toolChoice, parallelToolCalls } = options;
    if (!isAbsent(parallelToolCalls) && typeof parallelToolCalls !== 'boolean')
      refuse('parallelToolCalls', parallelToolCalls, 'true or false');
    // Rows may bring the tools that a choice is among.
    if (!isAbsent(toolChoice)) choiceOf(plainJson('toolChoice', toolChoice));
    if (!isAbsent(tools)) askedTools({}, options);
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message, { cause: error }) : error;
  }
}

interface Choice {
  readonly mode: (typeof MODES)[number];
  /** The tools to choose among, where not all are. */
  readonly names?: readonly string[];
  /** Exactly one call. */
  readonly one: boolean;
}

function choiceOf(choice: unknown): Choice {
  const word = MODES.find((mode) => mode === choice);
  if (word !== undefined) return { mode: word, one: false };
  if (!isObject(choice)) return refuse('toolChoice', choice, EXPECTED);
  const { type } = choice;
  if (type === 'function') return { mode: 'required', names: [nameOf('toolChoice', choice)], one: true };
  if (type !== 'allowed_tools') return refuse('toolChoice.type', type, EXPECTED);
  const allowed = isObject(choice['allowed_tools']) ? choice['allowed_tools'] : choice;
  const { mode, tools } = allowed;
  if (mode !== 'auto' && mode !== 'required') return refuse('toolChoice.allowed_tools.mode', mode, 'auto or required');
  if (!Array.isArray(tools) || tools.length === 0)
    return refuse(
      'toolChoice.allowed_tools.tools',
      tools,
      'a list of at least one {type: "function", function: {name}}',
    );
  return { mode, names: tools.map((tool, at) => nameOf(`toolChoice.allowed_tools.tools[${at}]`, tool)), one: false };
}

function toolsOf(given: unknown): readonly Tool[] {
  if (!Array.isArray(given)) return refuse('tools', given, 'an array of {type: "function", function}');
  if (given.length > MOST_TOOLS)
    throw new RowError('limit', `tools: found ${given.length}, expected at most ${MOST_TOOLS}`);
  const names = new Set<string>();
  return given.map((tool: unknown, at) => {
    const field = `tools[${at}]`;
    const name = nameOf(field, tool);
    if (names.has(name)) return refuse(`${field}.function.name`, name, 'a name that no other tool has');
    names.add(name);
    const { description, parameters } = functionOf(tool);
    if (!isAbsent(parameters) && !isObject(parameters))
      return refuse(`${field}.function.parameters`, parameters, 'a JSON Schema of an object');
    return {
      name,
      ...(!isAbsent(description) && { description }),
      ...(!isAbsent(parameters) && { parameters: withPlainNumbers(parameters) }),
    };
  });
}

/** Templates get numbers as they are written; a schema needs their values. */
function withPlainNumbers(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema));
}

/** A tool as OpenAI writes it, or its function alone, as chat templates take it too. */
function functionOf(tool: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(tool)) return {};
  const { type, function: own } = tool;
  if (isObject(own)) return type === undefined || type === null || type === 'function' ? own : {};
  return own === undefined && (type === undefined || type === 'function') ? tool : {};
}

function nameOf(field: string, tool: unknown): string {
  const { name } = functionOf(tool);
  if (name === undefined) return refuse(field, tool, '{type: "function", function: {name, parameters}}');
  if (typeof name !== 'string' || !NAME.test(name))
    return refuse(
      `${field}.function.name`,
      name,
      '1 to 128 letters and digits of ASCII, underscores, hyphens, points and slashes',
    );
  return name;
}

function listed(tools: readonly Tool[]): string {
  const names = tools.slice(0, 10).map(({ name }) => name);
  return `${names.join(', ')}${tools.length > names.length ? ' and others' : ''}`;
}

function refuse(field: string, value: unknown, expected: string): never {
  throw new RowError('invalid-parameter', `${field}: found ${found(value)}, expected ${expected}`);
}
