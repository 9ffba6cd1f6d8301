import { globalsAt } from './globals.js';
import { beginRendering } from './meter.js';
import { Parser } from './Parser.js';
import { Program } from './Program.js';
import { fromJson, type Value } from './values.js';

/** The input of a rendering, and what it may take. */
export interface Given {
  readonly variables: Readonly<Record<string, unknown>>;
  /** The time that `strftime_now` tells; where there is none, it refuses. */
  readonly now: Date | undefined;
  /** Messages among the variables, and units of all text in these. */
  readonly messages: number;
  readonly size: number;
}

/**
 * A Jinja template as transformers compiles it: jinja2's immutable sandbox with `trim_blocks` and `lstrip_blocks`,
 * `break`, `continue` and `{% generation %}`. It renders the text that the reference does, or raises an error.
 */
export class Template {
  readonly #program: Program;

  /** @throws PythonError for what is no template, Refused for what cannot be rendered as the reference does */
  constructor(source: string) {
    this.#program = new Program(new Parser(source).parse());
  }

  /**
   * @param atOnce no more of the work is done than one turn of the event loop may take
   * @throws PythonError where the reference raises an error, Refused beyond a limit and for what is not supported;
   *   TooLong for more work than that
   */
  render({ variables, now, messages, size }: Given, atOnce = false): string {
    beginRendering(messages, size, atOnce);
    const globals = globalsAt(now);
    const known = new Map<string, Value | undefined>();
    const resolve = (name: string): Value | undefined => {
      if (!known.has(name)) known.set(name, Object.hasOwn(variables, name) ? fromJson(variables[name]) : globals(name));
      return known.get(name);
    };
    return this.#program.render({ out: '', resolve });
  }
}
