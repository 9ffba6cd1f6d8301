// Cases of llama.cpp's test-jinja out of its source: calls of `test_template` with literals of C++ and nlohmann's JSON.
const SIMPLE = { n: '\n', t: '\t', r: '\r', 0: '\0', a: '\x07', b: '\b', f: '\f', v: '\v' };

/** Goes through the arguments of one call. */
class Literals {
  constructor(source, at) {
    this.source = source;
    this.at = at;
  }

  skip() {
    const blank = /(?:\s+|\/\/[^\n]*|\/\*[^]*?\*\/)*/y;
    blank.lastIndex = this.at;
    this.at += blank.exec(this.source)?.[0].length ?? 0;
  }

  take(literal) {
    this.skip();
    if (!this.source.startsWith(literal, this.at)) return false;
    this.at += literal.length;
    return true;
  }

  need(literal) {
    if (!this.take(literal)) throw new Error(`expected ${literal}, found ${this.source.slice(this.at, this.at + 40)}`);
  }

  /** Texts that stand one after another are one. */
  text() {
    let text;
    for (this.skip(); ; this.skip()) {
      const raw = /R"([^(]*)\(([^]*?)\)\1"/y;
      const plain = /(?:u8)?"((?:[^"\\]|\\[^])*)"/y;
      raw.lastIndex = plain.lastIndex = this.at;
      const found = raw.exec(this.source) ?? plain.exec(this.source);
      if (!found) break;
      this.at += found[0].length;
      text = (text ?? '') + (found[0].startsWith('R') ? found[2] : unescaped(found[1]));
    }
    if (text === undefined) throw new Error(`expected a text, found ${this.source.slice(this.at, this.at + 40)}`);
    return text;
  }

  list(value) {
    const items = [];
    this.need('{');
    while (!this.take('}')) {
      items.push(value());
      this.take(',');
    }
    return items;
  }

  /** As it is written in JSON: `1.0` is another number than `1`. */
  json() {
    this.skip();
    const begins = this.source[this.at];
    if (begins === '{') {
      const items = this.list(() => this.item());
      // A list of pairs of names and values is an object.
      const isObject = items.every(({ pair }) => pair !== undefined);
      return isObject
        ? `{${items.map(({ pair: [name, value] }) => `${name}:${value}`).join(',')}}`
        : `[${items.map(({ json }) => json).join(',')}]`;
    }
    if (begins === '"') return JSON.stringify(this.text());
    for (const [kind, empty] of [
      ['array', '[]'],
      ['object', '{}'],
    ]) {
      if (!this.take(`json::${kind}(`)) continue;
      if (this.take(')')) return empty;
      const items = this.list(() => this.item());
      this.need(')');
      return kind === 'array'
        ? `[${items.map(({ json }) => json).join(',')}]`
        : `{${items.map(({ pair: [name, value] }) => `${name}:${value}`).join(',')}}`;
    }
    if (this.take('json(') || this.take('std::string(')) {
      const value = this.json();
      this.need(')');
      return value;
    }
    if (this.take('json')) return this.json();
    const word = /true|false|nullptr|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?/y;
    word.lastIndex = this.at;
    const found = word.exec(this.source)?.[0];
    if (found === undefined) throw new Error(`expected a value, found ${this.source.slice(this.at, this.at + 40)}`);
    this.at += found.length;
    return found === 'nullptr' ? 'null' : found;
  }

  /** A value, and what it is as a member of an object, if it may be one. */
  item() {
    const from = this.at;
    const json = this.json();
    const end = this.at;
    this.at = from;
    let pair;
    this.skip();
    if (this.source[this.at] === '{') {
      try {
        const both = this.list(() => {
          this.skip();
          return { isText: this.source[this.at] === '"', json: this.json() };
        });
        if (both.length === 2 && both[0].isText) pair = both.map((each) => each.json);
      } catch {
        pair = undefined;
      }
    }
    this.at = end;
    return { json, pair };
  }
}

function unescaped(written) {
  const bytes = [];
  const escape = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([^]))|[^\\]+/g;
  for (const [piece, hex, unit, simple] of written.matchAll(escape)) {
    if (hex !== undefined) bytes.push(Buffer.from([parseInt(hex, 16)]));
    else
      bytes.push(
        Buffer.from(unit ? String.fromCharCode(parseInt(unit, 16)) : simple ? (SIMPLE[simple] ?? simple) : piece),
      );
  }
  return Buffer.concat(bytes).toString();
}

/** @returns by name: template, variables as JSON, and the text that llama.cpp expects; or why a case cannot be read */
export function cppCases(source) {
  const cases = [];
  for (const { index, 0: begins } of source.matchAll(/(?<=\n\s*)test_template\(t,/g)) {
    const literals = new Literals(source, index + begins.length);
    let name = '?';
    try {
      name = literals.text();
      literals.need(',');
      const template = literals.text();
      literals.need(',');
      const variables = literals.json();
      literals.need(',');
      const expected = literals.text();
      literals.need(')');
      cases.push({ name, template, variables, expected });
    } catch (error) {
      cases.push({ name, unread: error.message });
    }
  }
  return cases;
}
