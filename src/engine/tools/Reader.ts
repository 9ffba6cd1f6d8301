/** Goes through an answer. White space between the pieces of a call may be any: templates of one form differ there. */
export class Reader {
  constructor(
    readonly text: string,
    public at = 0,
  ) {}

  get atEnd(): boolean {
    return this.at >= this.text.length;
  }

  skipSpace(): void {
    while (isSpace(this.text.charCodeAt(this.at))) this.at++;
  }

  /** Goes beyond a text, whatever white space either has; stays where it is not there. */
  take(literal: string): boolean {
    const from = this.at;
    for (let index = 0; index < literal.length; index++) {
      const code = literal.charCodeAt(index);
      if (isSpace(code)) continue;
      this.skipSpace();
      if (this.text.charCodeAt(this.at) !== code) {
        this.at = from;
        return false;
      }
      this.at++;
    }
    return true;
  }

  /** The same before a text, whose own white space counts: where the mark is nothing else, it stays as it is. */
  goOn(mark: string): boolean {
    if (this.text.startsWith(mark, this.at)) {
      this.at += mark.length;
      return true;
    }
    return mark.trim() !== '' && this.take(mark);
  }

  /** What matches here, of a sticky expression. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const [matched] = pattern.exec(this.text) ?? [];
    if (matched !== undefined) this.at += matched.length;
    return matched;
  }

  /** The text up to a mark, and beyond it; undefined where there is none. */
  upTo(mark: string): string | undefined {
    const end = this.text.indexOf(mark, this.at);
    if (end < 0) return undefined;
    const before = this.text.slice(this.at, end);
    this.at = end + mark.length;
    return before;
  }

  /** A value of JSON as it is written; undefined where none is, or no whole one. */
  json(): string | undefined {
    this.skipSpace();
    const from = this.at;
    let depth = 0;
    for (let at = from; at < this.text.length; at++) {
      const character = this.text[at];
      if (character === '"') {
        for (at++; at < this.text.length && this.text[at] !== '"'; at++) if (this.text[at] === '\\') at++;
        if (at >= this.text.length) return undefined;
      } else if (character === '{' || character === '[') depth++;
      else if (character === '}' || character === ']') depth--;
      else if (depth > 0) continue;
      else return undefined;
      if (depth > 0) continue;
      const written = this.text.slice(from, at + 1);
      if (depth < 0 || !isJson(written)) return undefined;
      this.at = at + 1;
      return written;
    }
    return undefined;
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}
