import { declaredTypes, propertiesOf, type PartOfSchema } from './declaredTypes.js';
import { isObject } from '../../arguments/isObject.js';
import { enforcedPart } from './enforcedPart.js';
import type { Reader, Steps, Tell } from './Reader.js';
import { joined, literal, type Rules } from './Rules.js';
import { textUpTo } from './textUpTo.js';
import { readText } from './taggedArguments.js';
import type { ArgumentForm } from './ToolForm.js';

/** Objects inside objects of a schema are written out so far; below any value goes, and the whole is looked at. */
const MOST_DEPTH = 8;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORDS: Readonly<Record<string, string>> = { true: 'true', false: 'false', null: 'null', None: 'null' };
const WORD = /true|false|null|None/y;
/** Lists and objects inside one another are read so far. */
const MOST_NESTING = 64;

/**
 * Arguments as Gemma writes them: like JSON, with bare names, and texts between marks, as they are.
 * @param mark before a text and after it
 */
export function bareArguments(mark: string): ArgumentForm {
  return {
    rule: ({ parameters }, rules) => new BareRules(mark, rules).object({ schema: parameters, root: parameters }, 0),
    read: function* (reader, _tool, tell) {
      yield* reader.skipSpace();
      return (yield* reader.next('{')) && (yield* readValue(reader, mark, 0, tell));
    },
  };
}

class BareRules {
  #any: string | undefined;

  constructor(
    private readonly mark: string,
    private readonly rules: Rules,
  ) {}

  /** An object with the properties that a schema lists, in its order. */
  object({ schema, root }: PartOfSchema, depth: number): string {
    const own = isObject(schema) ? propertiesOf(schema) : [];
    const members = own.map(({ name, schema: member, required }) => ({
      text: joined(literal(`${name}:`), this.value({ schema: member, root }, depth + 1)),
      required,
    }));
    // After a member that is there a comma stands before the next: from the last one on.
    let [first, next] = ['', ''];
    for (const { text, required } of members.toReversed()) {
      const rest = next === '' ? '' : this.rules.rule('more', next);
      const optional = (of: string): string => (of === '' ? '' : `(${of})`);
      const with_ = joined(text, rest);
      first = required ? with_ : first === '' ? `(${with_})?` : `(${with_} | ${optional(first)})`;
      next = required ? joined(literal(','), with_) : joined(`(${joined(literal(','), text)})?`, rest);
    }
    return joined(literal('{'), first, literal('}'));
  }

  value(part: PartOfSchema, depth: number): string {
    const { schema, root } = part;
    if (depth > MOST_DEPTH || !isObject(schema)) return this.any();
    const types = declaredTypes(part);
    const { enum: values, items } = schema;
    if (Array.isArray(values)) {
      const written = values.map((value: unknown) => this.written(value));
      if (written.every((each) => each !== undefined)) return `(${written.map(literal).join(' | ')})`;
    }
    // What is no text, list or object is written as in JSON.
    if (![...types].some((type) => type === 'string' || type === 'array' || type === 'object')) {
      const own = enforcedPart(part);
      if (own) return this.rules.schema(own.grammar);
    }
    const ways = [...types].flatMap((type) => {
      if (type === 'string') return [joined(literal(this.mark), textUpTo(this.mark, part, this.rules))];
      if (type === 'number') return [this.number(declaresInteger(schema))];
      if (type === 'boolean') return ['"true"', '"false"'];
      if (type === 'null') return ['"null"'];
      if (type === 'array')
        return [this.list(isObject(items) ? this.value({ schema: items, root }, depth + 1) : this.any(), schema)];
      return [isObject(schema['properties']) ? this.object(part, depth) : this.members()];
    });
    return ways.length === 0 ? this.any() : `(${ways.join(' | ')})`;
  }

  /** Writes a value of a list of choices as a text; undefined for lists and objects. */
  private written(value: unknown): string | undefined {
    if (typeof value === 'string') return this.mark + value + this.mark;
    return typeof value === 'object' && value !== null ? undefined : JSON.stringify(value);
  }

  private text(): string {
    return joined(literal(this.mark), this.rules.upTo(this.mark));
  }

  private number(whole: boolean): string {
    return this.rules.terminal('NUMBER', whole ? '-?(0|[1-9][0-9]{0,15})' : '-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?');
  }

  private list(item: string, { minItems, maxItems }: Readonly<Record<string, unknown>> = {}): string {
    const least = typeof minItems === 'number' ? Math.max(0, minItems) : 0;
    const most = typeof maxItems === 'number' ? maxItems : undefined;
    if (most !== undefined && (most < 1 || most < least)) return `${literal('[')} ${literal(']')}`;
    const rest = `(${joined(literal(','), item)}){${Math.max(0, least - 1)},${most === undefined ? '' : most - 1}}`;
    return joined(literal('['), `(${item} ${rest})${least > 0 ? '' : '?'}`, literal(']'));
  }

  private members(): string {
    const member = this.rules.rule('member', joined('KEY', literal(':'), this.any()));
    return joined(literal('{'), `(${member} (${joined(literal(','), member)})*)?`, literal('}'));
  }

  private any(): string {
    if (this.#any === undefined) {
      // Refers to itself: its name has to be known before what it is.
      const [name, define] = this.rules.open('any');
      this.#any = name;
      define([this.text(), this.number(false), '"true"', '"false"', '"null"', this.list(name), this.members()].join(
        ' | ',
      ));
    }
    return this.#any;
  }
}

function declaresInteger({ type, $ref, anyOf }: Readonly<Record<string, unknown>>): boolean {
  const types = Array.isArray(type) ? (type as readonly unknown[]) : [type];
  return types.includes('integer') && !types.includes('number') && $ref === undefined && anyOf === undefined;
}

/** Tells a value as JSON. @returns whether a whole one is there */
function* readValue(reader: Reader, mark: string, depth: number, tell: Tell): Steps<boolean> {
  if (depth > MOST_NESTING) return false;
  yield* reader.skipSpace();
  if (yield* reader.takeExactly(mark)) return yield* readText(reader, mark, tell);
  if (yield* reader.take('['))
    return yield* readAll(reader, '[]', tell, () => readValue(reader, mark, depth + 1, tell));
  if (yield* reader.take('{')) {
    const names = new Set<string>();
    return yield* readAll(reader, '{}', tell, function* () {
      const name = yield* readName(reader, mark);
      if (name === undefined || names.has(name)) return false;
      names.add(name);
      tell(`${JSON.stringify(name)}: `);
      return yield* readValue(reader, mark, depth + 1, tell);
    });
  }
  const word = yield* reader.match(WORD);
  const json = word === undefined ? yield* reader.match(NUMBER) : WORDS[word];
  tell(json ?? '');
  return json !== undefined;
}

/** Reads the values between brackets, parted by commas; the first bracket has been read. */
function* readAll(reader: Reader, brackets: string, tell: Tell, read: () => Steps<boolean>): Steps<boolean> {
  const [open = '', close = ''] = brackets;
  tell(open);
  if (!(yield* reader.take(close))) {
    for (let at = 0; at === 0 || (yield* reader.take(',')); at++) {
      if (at > 0) tell(', ');
      if (!(yield* read())) return false;
    }
    if (!(yield* reader.take(close))) return false;
  }
  tell(close);
  return true;
}

/** A member's name: bare, or between marks. */
function* readName(reader: Reader, mark: string): Steps<string | undefined> {
  yield* reader.skipSpace();
  if (!(yield* reader.takeExactly(mark))) return yield* reader.before(':');
  const name = yield* reader.before(mark);
  return name !== undefined && (yield* reader.take(':')) ? name : undefined;
}
