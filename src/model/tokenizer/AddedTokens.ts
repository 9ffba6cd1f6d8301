/** A token that is matched in the text as it stands, before any pre-tokenizer. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A control token: left out of decoded text, and plain text where special tokens are not parsed. */
  readonly special: boolean;
  /** Matched in the normalized text. */
  readonly normalized: boolean;
  /** Matched only where no word character stands beside it. */
  readonly singleWord: boolean;
  /** Takes the blanks before it, or behind it, with it. */
  readonly stripLeft: boolean;
  readonly stripRight: boolean;
}

/** A stretch of text: a token that was matched, or text between tokens. */
export type Section = { readonly token: AddedToken } | { readonly text: string; readonly start: number };

interface Node {
  readonly children: Map<number, Node>;
  token: AddedToken | undefined;
}

/** Finds added tokens in text: the leftmost match first, the longest of those that begin at one place. */
export class AddedTokens {
  readonly #root: Node = { children: new Map(), token: undefined };
  /** Which UTF-16 units begin a token: most text is passed over by one look-up a unit. */
  readonly #begins = new Uint8Array(65_536);
  readonly size: number;

  /** @param contentOf what stands in the text for a token, if not its own content (normalized tokens) */
  constructor(tokens: readonly AddedToken[], contentOf: (token: AddedToken) => string = (token) => token.content) {
    let size = 0;
    for (const token of tokens) {
      const content = contentOf(token);
      if (content === '') continue;
      size++;
      let node = this.#root;
      for (let i = 0; i < content.length; i++) {
        const unit = content.charCodeAt(i);
        let child = node.children.get(unit);
        if (child === undefined) node.children.set(unit, (child = { children: new Map(), token: undefined }));
        node = child;
      }
      node.token ??= token;
      this.#begins[content.charCodeAt(0)] = 1;
    }
    this.size = size;
  }

  /** @param accept tokens it refuses stay text, and so does what they cover */
  split(text: string, accept: (token: AddedToken) => boolean): Section[] {
    const sections: Section[] = [];
    let done = 0;
    for (let at = 0; at < text.length; ) {
      if (this.#begins[text.charCodeAt(at)] === 0) {
        at++;
        continue;
      }
      const found = this.#longestAt(text, at);
      if (found === undefined) {
        at++;
        continue;
      }
      let start = at;
      let { end } = found;
      const { token } = found;
      at = end;
      if (!accept(token) || (token.singleWord && (endsInWord(text, start) || beginsWithWord(text, end)))) continue;
      if (token.stripLeft) while (start > done && isBlank(text, start - 1)) start--;
      if (token.stripRight) while (end < text.length && isBlank(text, end)) end++;
      if (start > done) sections.push({ text: text.slice(done, start), start: done });
      sections.push({ token });
      done = end;
      at = end;
    }
    if (done < text.length) sections.push({ text: text.slice(done), start: done });
    return sections;
  }

  #longestAt(text: string, start: number): { token: AddedToken; end: number } | undefined {
    let best: { token: AddedToken; end: number } | undefined;
    let node: Node | undefined = this.#root;
    for (let at = start; at < text.length; ) {
      node = node.children.get(text.charCodeAt(at++));
      if (node === undefined) break;
      if (node.token !== undefined) best = { token: node.token, end: at };
    }
    return best;
  }
}

function isBlank(text: string, at: number): boolean {
  return /\p{White_Space}/u.test(text.charAt(at));
}

/** A character of a word to Rust's `\w`. */
const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

function endsInWord(text: string, end: number): boolean {
  if (end === 0) return false;
  const before = text.codePointAt(end - 2) ?? 0;
  return WORD.test(before > 0xffff ? String.fromCodePoint(before) : text.charAt(end - 1));
}

function beginsWithWord(text: string, start: number): boolean {
  const code = text.codePointAt(start);
  return code !== undefined && WORD.test(String.fromCodePoint(code));
}
