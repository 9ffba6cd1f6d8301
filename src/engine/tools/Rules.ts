import type { ReasoningMarks } from '../../model/Tokenizer.js';

/** Any text, in a pattern. */
export const ANY = '(.|\\n)*';

const TERMINALS = [`ANY: /${ANY}/`, 'DIGITS: /[0-9]{1,4}/', 'ID: /[a-zA-Z0-9]{9}/', 'KEY: /[a-zA-Z0-9_]{1,64}/'];

/** A text in a rule; nothing for none. (Brackets are escaped: those of texts need not be closed.) */
export function literal(text: string): string {
  return text === ''
    ? ''
    : JSON.stringify(text).replace(/[(){}[\]]/g, (bracket) => `\\u00${bracket.charCodeAt(0).toString(16)}`);
}

/** A text in a pattern. */
export function inPattern(text: string): string {
  return text.replace(/[\\/.*+?^$|(){}[\]#&~-]/g, '\\$&').replace(/\n/g, '\\n');
}

/** One after another, those that are any. */
export function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ');
}

/** Rules of a grammar in Lark's notation, and the JSON Schemas that they refer to. */
export class Rules {
  readonly schemas: unknown[] = [];
  readonly #lines: string[] = [...TERMINALS];
  readonly #ends = new Map<string, string>();

  /** @param holdsTexts whether texts that stand as they are are held to their schemas */
  constructor(readonly holdsTexts = false) {}

  /** A rule of a name that no other has. @returns the name */
  rule(name: string, body: string): string {
    const own = `${name}_${this.#lines.length}`;
    this.#lines.push(`${own}: ${body}`);
    return own;
  }

  /** A rule whose name is there before it is. */
  open(name: string): readonly [name: string, define: (body: string) => void] {
    const own = `${name}_${this.#lines.length}`;
    const at = this.#lines.push('') - 1;
    return [own, (body) => (this.#lines[at] = `${own}: ${body}`)];
  }

  /** A text that matches a pattern, those besides, and none of the others. */
  terminal(name: string, pattern: string, without: readonly string[] = [], besides: readonly string[] = []): string {
    const own = `${name}_${this.#lines.length}`;
    const all = [...[pattern, ...besides].map((each) => `/${each}/`), ...without.map((other) => `~/${other}/`)];
    this.#lines.push(`${own}: ${all.join(' & ')}`);
    return own;
  }

  /** A value of JSON that a grammar of `EnforcedSchema` allows. */
  schema(schema: unknown): string {
    this.schemas.push(schema);
    return `@s${this.schemas.length - 1}`;
  }

  /** Text up to the first place where this stands, and that. @param of a terminal: such text */
  upTo(mark: string, of = 'ANY'): string {
    const key = `${of} ${mark}`;
    const known = this.#ends.get(key);
    if (known !== undefined) return known;
    const name = `up_to_${this.#lines.length}`;
    this.#lines.push(`${name}[suffix=${literal(mark)}]: ${of}`);
    this.#ends.set(key, name);
    return name;
  }

  /** Reasoning that may stand before an answer; where the prompt has begun it, it has to end. */
  reasoning(marks: ReasoningMarks | undefined, open: boolean): string {
    if (marks === undefined) return '';
    if (open) return this.upTo(marks.end);
    return `(${this.terminal('BEGINS', `\\s*${inPattern(marks.start)}`)} ${this.upTo(marks.end)})?`;
  }

  from(start: string): { readonly lark: string; readonly schemas: readonly unknown[] } {
    return { lark: [`start: ${start}`, ...this.#lines, ''].join('\n'), schemas: this.schemas };
  }
}
