/** Lists and objects inside one another are read so far; what is deeper is left out. */
const MOST_DEPTH = 1000;

const SPACE = /[ \t\n\r]*/y;
/** Text of JSON up to its closing mark, as far as it is whole: an escape that is not is left out. */
const TEXT = /[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*/y;
/** A number is one when something else stands after it: before, more digits may come. */
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[ \t\n\r,\]}])/y;
const WORD = /true|false|null/y;
/** One half of a character, whose other half may follow. */
const HALF = /[\ud800-\udbff]$/;

/**
 * The value that the beginning of a text of JSON has so far, such as the deltas of a row that is held to a schema, put
 * together. Of longer and longer beginnings of one text the values only grow: texts get more characters, lists more
 * items, objects more members, and what is there does not change. A number, which may go on, is there once something
 * else stands after it, `true`, `false` and `null` when they are whole. Undefined as long as there is nothing. What is
 * no JSON ends what is read.
 */
export function partialJson(text: string): unknown {
  return new PartialReader(text).value(0);
}

class PartialReader {
  private at = 0;
  /** Nothing after this place is read: the text is over, or no JSON. */
  private over = false;

  constructor(private readonly text: string) {}

  value(depth: number): unknown {
    this.match(SPACE);
    const next = this.text[this.at];
    if (next === '"') return this.string();
    if ((next === '[' || next === '{') && depth < MOST_DEPTH)
      return next === '[' ? this.list(depth) : this.object(depth);
    const written = this.match(NUMBER) || this.match(WORD);
    if (written !== '') return JSON.parse(written);
    this.end();
    return undefined;
  }

  private list(depth: number): unknown[] {
    const items: unknown[] = [];
    this.members(']', () => {
      const item = this.value(depth + 1);
      if (item !== undefined) items.push(item);
    });
    return items;
  }

  private object(depth: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    this.members('}', () => {
      const name = this.text[this.at] === '"' ? this.string() : undefined;
      if (name === undefined || (!this.over && !this.take(':'))) this.end();
      const value = this.over ? undefined : this.value(depth + 1);
      // `__proto__` is a name like others.
      if (value !== undefined && name !== undefined)
        Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true });
    });
    return members;
  }

  private members(close: string, member: () => void): void {
    this.at++;
    if (this.take(close)) return;
    do {
      this.match(SPACE);
      member();
    } while (!this.over && this.take(','));
    if (!this.over && !this.take(close)) this.end();
  }

  private string(): string {
    this.at++;
    const written = this.match(TEXT);
    const text = JSON.parse(`"${written}"`) as string;
    if (this.take('"', false)) return text;
    this.end();
    return text.replace(HALF, '');
  }

  private take(literal: string, spaced = true): boolean {
    if (spaced) this.match(SPACE);
    if (this.text[this.at] !== literal) return false;
    this.at++;
    return true;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const [matched = ''] = pattern.exec(this.text) ?? [];
    this.at += matched.length;
    return matched;
  }

  private end(): void {
    this.over = true;
  }
}
