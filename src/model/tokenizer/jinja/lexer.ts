import { PythonError, unsupported } from './errors.js';
import { isSpace, rstrip } from './characters.js';

export interface Token {
  readonly type:
    | 'data'
    | 'variable_begin'
    | 'variable_end'
    | 'block_begin'
    | 'block_end'
    | 'end'
    | 'name'
    | 'string'
    | 'number'
    | 'operator';
  readonly text: string;
  /** A number's value. */
  readonly value?: number | bigint;
  readonly float?: boolean;
  readonly line: number;
}

const NAME = /[\p{XID_Start}_][\p{XID_Continue}]*/uy;
const FLOAT = /(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const INTEGER = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y;
const CLOSING: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' };

/**
 * Cuts a template as jinja2's lexer does, with `trim_blocks` and `lstrip_blocks` as transformers sets them: a tag's
 * white space is taken away where the tag asks for it.
 */
export class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;

  constructor(source: string) {
    const text = source.includes('\r') ? source.replace(/\r\n?/g, '\n') : source;
    // One newline at the very end is dropped.
    this.#source = text.endsWith('\n') ? text.slice(0, -1) : text;
  }

  tokens(): Token[] {
    let lineStarting = true;
    while (this.#at < this.#source.length) {
      const open = this.#nextTag();
      if (open < 0) {
        this.#data(this.#source.slice(this.#at));
        break;
      }
      const kind = this.#source.charAt(open + 1);
      const raw = kind === '%' ? this.#rawAt(open) : undefined;
      const sign = this.#source.charAt(open + 2);
      const signed = sign === '-' || sign === '+';
      let text = this.#source.slice(this.#at, open);
      const lines = countLines(text);
      if (signed && sign === '-') text = rstrip(text);
      else if (!signed && kind !== '{') text = withoutIndent(text, lineStarting);
      this.#data(text);
      this.#line += lines;
      this.#at = open + (signed ? 3 : 2);
      if (raw !== undefined) this.#raw(raw);
      else if (kind === '#') this.#comment();
      else this.#tag(kind === '{');
      lineStarting = this.#source.charAt(this.#at - 1) === '\n';
    }
    this.#push('end', '');
    return this.#tokens;
  }

  #push(type: Token['type'], text: string, more?: Pick<Token, 'value' | 'float'>): void {
    this.#tokens.push({ type, text, line: this.#line, ...more });
  }

  #data(text: string): void {
    if (text !== '') this.#push('data', text);
  }

  #nextTag(): number {
    for (let at = this.#source.indexOf('{', this.#at); at >= 0; at = this.#source.indexOf('{', at + 1))
      if ('{%#'.includes(this.#source.charAt(at + 1) || ' ')) return at;
    return -1;
  }

  /** Where the text of a raw block that opens here begins; undefined where none does. */
  #rawAt(open: number): number | undefined {
    const begins = /\{%[-+]?\s*raw\s*(-?)%\}/y;
    begins.lastIndex = open;
    const match = begins.exec(this.#source);
    if (match === null) return undefined;
    return match[1] === '-' ? this.#pastSpace(begins.lastIndex) : begins.lastIndex;
  }

  #raw(begins: number): void {
    this.#moveTo(begins);
    const ends = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;
    ends.lastIndex = begins;
    const match = ends.exec(this.#source);
    if (match === null) this.fail('Missing end of raw directive');
    let text = this.#source.slice(begins, match.index);
    if (match[1] === '-') text = rstrip(text);
    else if (match[1] === '') text = withoutIndent(text, this.#source.charAt(begins - 1) === '\n');
    this.#data(text);
    this.#moveTo(this.#pastEnd(ends.lastIndex, match[2] ?? ''));
  }

  #comment(): void {
    const close = this.#source.indexOf('#}', this.#at);
    if (close < 0) this.fail('Missing end of comment tag');
    const sign = close > this.#at ? this.#source.charAt(close - 1) : '';
    this.#moveTo(this.#pastEnd(close + 2, sign));
  }

  /** Where text begins after the end of a block or a comment. */
  #pastEnd(end: number, sign: string): number {
    if (sign === '-') return this.#pastSpace(end);
    return sign !== '+' && this.#source.charAt(end) === '\n' ? end + 1 : end;
  }

  #pastSpace(from: number): number {
    let at = from;
    while (at < this.#source.length && isSpace(this.#source.charAt(at))) at++;
    return at;
  }

  #moveTo(at: number): void {
    this.#line += countLines(this.#source.slice(this.#at, at));
    this.#at = at;
  }

  #tag(variable: boolean): void {
    this.#push(variable ? 'variable_begin' : 'block_begin', '');
    const close = variable ? '}}' : '%}';
    const open: string[] = [];
    for (;;) {
      this.#moveTo(this.#pastSpace(this.#at));
      if (this.#at >= this.#source.length) return;
      if (open.length === 0) {
        const sign = this.#source.charAt(this.#at);
        const signed = sign === '-' || (sign === '+' && !variable);
        if (this.#source.startsWith(close, this.#at + (signed ? 1 : 0))) {
          this.#push(variable ? 'variable_end' : 'block_end', '');
          const end = this.#at + (signed ? 3 : 2);
          this.#moveTo(variable ? (signed ? this.#pastSpace(end) : end) : this.#pastEnd(end, signed ? sign : ''));
          return;
        }
      }
      this.#token(open);
    }
  }

  #token(open: string[]): void {
    const first = this.#source.charAt(this.#at);
    if (first === '"' || first === "'") {
      this.#string(first);
      return;
    }
    const float = this.#source.charAt(this.#at - 1) === '.' ? undefined : this.#match(FLOAT);
    if (float !== undefined) {
      const value = Number(float.replaceAll('_', ''));
      if (!Number.isFinite(value)) throw unsupported(`the number ${float}`);
      this.#push('number', float, { value, float: true });
      return;
    }
    const integer = this.#match(INTEGER);
    if (integer !== undefined) {
      if (integer.length > 4300) this.fail('a number of more than 4300 digits');
      this.#push('number', integer, { value: BigInt(integer.replaceAll('_', '').toLowerCase()) });
      return;
    }
    const name = this.#match(NAME);
    if (name !== undefined) {
      this.#push('name', name);
      return;
    }
    const operator = this.#match(OPERATOR);
    if (operator === undefined)
      this.fail(`unexpected char ${JSON.stringify(String.fromCodePoint(this.#source.codePointAt(this.#at) ?? 0))}`);
    const closing = CLOSING[operator];
    if (closing !== undefined) open.push(closing);
    else if (operator === '}' || operator === ')' || operator === ']') {
      const expected = open.pop();
      if (expected !== operator)
        this.fail(`unexpected '${operator}'${expected === undefined ? '' : `, expected '${expected}'`}`);
    }
    this.#push('operator', operator);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    if (match === null) return undefined;
    this.#at += match[0].length;
    return match[0];
  }

  #string(quote: string): void {
    const begins = this.#at + 1;
    let at = begins;
    while (at < this.#source.length && this.#source.charAt(at) !== quote)
      at += this.#source.charAt(at) === '\\' ? 2 : 1;
    if (at >= this.#source.length) this.fail(`unexpected char ${JSON.stringify(quote)}`);
    const text = this.#source.slice(begins, at);
    this.#push('string', text.includes('\\') ? this.#unescaped(text) : text);
    this.#moveTo(at + 1);
  }

  /** Python's escapes; jinja2 reads a backslash before a character beyond ASCII as itself. */
  #unescaped(text: string): string {
    return text.replace(
      /\\(?:\n|([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/gu,
      (whole, octal?: string, two?: string, four?: string, eight?: string, other?: string) => {
        if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
        const hex = two ?? four ?? eight;
        if (hex !== undefined) {
          const code = Number.parseInt(hex, 16);
          if (code > 0x10ffff) this.fail('illegal Unicode character');
          return String.fromCodePoint(code);
        }
        if (other === undefined) return '';
        if ('xuU'.includes(other)) this.fail(`truncated \\${other} escape`);
        if (other === 'N') throw unsupported('the escape \\N{…}');
        return ESCAPES[other] ?? whole;
      },
    );
  }

  fail(message: string): never {
    throw new PythonError('TemplateSyntaxError', `line ${this.#line}: ${message}`);
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/** A text without the blanks between its last newline and the tag that comes next, if there is nothing else there. */
function withoutIndent(text: string, lineStarting: boolean): string {
  const from = text.lastIndexOf('\n') + 1;
  if (from === 0 && !lineStarting) return text;
  for (let at = from; at < text.length; at++) if (!isSpace(text.charAt(at))) return text;
  return text.slice(0, from);
}
