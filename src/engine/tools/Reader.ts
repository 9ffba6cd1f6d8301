/** Steps that may have to wait for more of an answer: they stop at each `yield` until there is. */
export type Steps<Result> = Generator<void, Result, void>;

/** Told of each piece of a text as it becomes certain. */
export type Tell = (piece: string) => void;

/** Characters of names, numbers and words: what of them has come to its end is known by the next other one. */
const IN_WORDS = /[\w.+\-/]*/y;

/**
 * Goes through an answer as it comes. White space between the pieces of a call may be any: templates of one form differ
 * there.
 */
export class Reader {
  private text = '';
  private over = false;
  private dropped = 0;
  private at = 0;

  push(piece: string): void {
    this.text += piece;
  }

  /** No more comes. */
  end(): void {
    this.over = true;
  }

  /** How many characters it has gone through. */
  get position(): number {
    return this.dropped + this.at;
  }

  /** Does what gives true, or stays where it is. */
  *tried(does: () => Steps<boolean>): Steps<boolean> {
    const from = this.at;
    if (yield* does()) return true;
    this.at = from;
    return false;
  }

  *atEnd(): Steps<boolean> {
    while (this.at >= this.text.length) {
      if (this.over) return true;
      yield;
    }
    return false;
  }

  *skipSpace(): Steps<void> {
    while (!(yield* this.atEnd()) && isSpace(this.text.charCodeAt(this.at))) this.at++;
  }

  /** The next character, where it is this one. */
  *next(character: string): Steps<boolean> {
    return !(yield* this.atEnd()) && this.text[this.at] === character;
  }

  /** Goes beyond a text, whatever white space either has; stays where it is not there. */
  *take(literal: string): Steps<boolean> {
    const from = this.at;
    for (let index = 0; index < literal.length; index++) {
      const code = literal.charCodeAt(index);
      if (isSpace(code)) continue;
      yield* this.skipSpace();
      if (this.text.charCodeAt(this.at) !== code) {
        this.at = from;
        return false;
      }
      this.at++;
    }
    return true;
  }

  /** Tells whether a text stands here, to the letter. */
  *sees(literal: string): Steps<boolean> {
    while (!this.over && this.text.length - this.at < literal.length && literal.startsWith(this.text.slice(this.at)))
      yield;
    return this.text.startsWith(literal, this.at);
  }

  /** Goes beyond a text to the letter. */
  *takeExactly(literal: string): Steps<boolean> {
    const stands = yield* this.sees(literal);
    if (stands) this.at += literal.length;
    return stands;
  }

  /** The same before a text, whose own white space counts: where the mark is nothing else, it stays as it is. */
  *goOn(mark: string): Steps<boolean> {
    return (yield* this.takeExactly(mark)) || (mark.trim() !== '' && (yield* this.take(mark)));
  }

  /** A name, number or word that matches here, of a sticky expression. */
  *match(pattern: RegExp): Steps<string | undefined> {
    for (let end = this.at; ;) {
      IN_WORDS.lastIndex = end;
      end += IN_WORDS.exec(this.text)?.[0].length ?? 0;
      if (end < this.text.length || this.over) break;
      yield;
    }
    pattern.lastIndex = this.at;
    const [matched] = pattern.exec(this.text) ?? [];
    if (matched !== undefined) this.at += matched.length;
    return matched;
  }

  /**
   * Goes beyond a mark, and tells of the text before it as it comes; of all that is left, where there is none. What has
   * been told is not gone back to.
   * @returns whether there is one
   */
  *upTo(mark: string, tell: Tell): Steps<boolean> {
    for (;;) {
      const end = this.text.indexOf(mark, this.at);
      if (end >= 0) {
        this.told(end, tell);
        this.at = mark.length;
        return true;
      }
      this.told(this.text.length - (this.over ? 0 : begunAt(this.text, mark, this.at)), tell);
      if (this.over) return false;
      yield;
    }
  }

  /** The text up to a mark, and beyond it; undefined where there is none. */
  *before(mark: string): Steps<string | undefined> {
    let text = '';
    return (yield* this.upTo(mark, (piece) => (text += piece))) ? text : undefined;
  }

  /** Tells of all that is left, as it comes. */
  *rest(tell: Tell): Steps<void> {
    for (;;) {
      this.told(this.text.length, tell);
      if (this.over) return;
      yield;
    }
  }

  /** Tells of an object or list of JSON as it is written. @returns whether one is there, and whole */
  *json(tell: Tell): Steps<boolean> {
    yield* this.skipSpace();
    let written = '';
    const told: Tell = (piece) => {
      written += piece;
      tell(piece);
    };
    let depth = 0;
    let [inText, escaped] = [false, false];
    for (let at = this.at; ;) {
      for (; at < this.text.length; at++) {
        const character = this.text[at];
        if (inText) {
          if (!escaped && character === '"') inText = false;
          escaped = !escaped && character === '\\';
          continue;
        }
        if (character === '{' || character === '[') depth++;
        else if (character === '}' || character === ']') depth--;
        else if (depth === 0) return false;
        else inText = character === '"';
        if (depth > 0) continue;
        if (depth < 0) return false;
        this.told(at + 1, told);
        return isJson(written);
      }
      this.told(at, told);
      at = 0;
      if (this.over) return false;
      yield;
    }
  }

  /** Text up to there is certain, and given up. */
  private told(end: number, tell: Tell): void {
    if (end > this.at) tell(this.text.slice(this.at, end));
    this.text = this.text.slice(end);
    this.dropped += end;
    this.at = 0;
  }
}

/** How many characters at a text's end a mark begins with. @param from where the text begins */
export function begunAt(text: string, mark: string, from = 0): number {
  for (let length = Math.min(mark.length - 1, text.length - from); length > 0; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}

function isJson(text: string): boolean {
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
