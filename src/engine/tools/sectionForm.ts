import type { Reader, Steps } from './Reader.js';
import { ANY, inPattern, joined, literal, Rules } from './Rules.js';
import type { AnswerParts, ArgumentForm, CallRules, ToolForm, Tools } from './ToolForm.js';

type MadeUp = 'DIGITS' | 'ID';

/** A piece of a call: a text, digits or an id that the model makes up, or pieces that may be left out. */
export type Piece = string | { readonly made: MadeUp } | { readonly optional: readonly Piece[] };

/** A form whose calls stand in sections, each with its name, then its arguments. */
export interface SectionFacts {
  readonly name: string;
  isIn(template: string): boolean;
  /** Where an answer has this text a call begins, with it: it is the beginning of a section. */
  readonly trigger: string;
  /** Calls are the whole answer. */
  readonly alone?: {
    /** May stand before it. */
    readonly after: string;
    /** Patterns of answers that would be calls: text is none of them. */
    readonly texts: readonly string[];
  };
  /** Round all calls; by default each is a section. */
  readonly section?: readonly [opens: string, closes: string];
  /** Between two calls; undefined where an answer has one alone. */
  readonly between: string | undefined;
  /** Before a call's name, after it, and after its arguments. */
  readonly begins: string;
  readonly named: readonly Piece[];
  readonly ends: readonly Piece[];
  readonly arguments: ArgumentForm;
  readonly markers?: readonly string[];
  readonly stops?: readonly string[];
  readonly id?: NonNullable<ToolForm['id']>;
}

const NAME = /[A-Za-z0-9_.\-/]+/y;
const PATTERNS: Readonly<Record<MadeUp, RegExp>> = { DIGITS: /[0-9]{1,4}/y, ID: /[a-zA-Z0-9]{9}/y };

export function sectionForm(facts: SectionFacts): ToolForm {
  const { name, markers = [], stops = [], id } = facts;
  return {
    name,
    isIn: (template) => facts.isIn(template),
    markers,
    stops,
    grammar: (rules) => grammarOf(facts, rules),
    read: (reader, tools, parts, held) =>
      held || facts.alone ? readAlone(facts, reader, tools, parts, held) : readSections(facts, reader, tools, parts),
    ...(id && { id }),
  };
}

function grammarOf(
  { trigger, alone, section, begins, named, ends, between, arguments: form }: SectionFacts,
  { tools, choice, parallel, marks, open, text: held, holdsTexts }: CallRules,
): ReturnType<ToolForm['grammar']> {
  const [opens, closes] = section ?? ['', ''];
  const rules = new Rules(holdsTexts);
  const think = rules.reasoning(marks, open);
  const call = rules.rule(
    'call',
    [...tools.values()]
      .map((tool) => joined(literal(tool.name), pieces(named), form.rule(tool, rules), pieces(ends)))
      .join(' | '),
  );
  const several = parallel && between !== undefined;
  const more = several ? `(${joined(literal(between + begins), call)})*` : '';
  const calls = joined(literal(opens + begins), call, more, literal(closes));
  if (choice === 'required') return rules.from(joined(think, calls));
  if (held) {
    const after = alone && alone.after !== '' ? `${literal(alone.after)}?` : '';
    return rules.from(joined(think, `(${joined(after, calls)} | ${held(rules)})`));
  }
  // What begins as reasoning is that, and not text in which a call might begin.
  const reasons = marks === undefined ? [] : [`\\s*${inPattern(marks.start)}${ANY}`];
  const free = (patterns: readonly string[]): string => rules.terminal('FREE', ANY, [...patterns, ...reasons]);
  const behind = joined(literal((opens + begins).slice(trigger.length)), call, section ? more : '', literal(closes));
  if (alone) {
    const first = joined(alone.after === '' ? '' : `${literal(alone.after)}?`, literal(trigger), behind);
    return rules.from(joined(think, `(${first} | ${free(alone.texts)})?`));
  }
  const first = joined(rules.upTo(trigger, rules.terminal('BEFORE', ANY, reasons)), behind);
  const text = free([`${ANY}${inPattern(trigger)}${ANY}`]);
  return rules.from(joined(think, several ? `(${first})* ${text}?` : `(${first} | ${text})?`));
}

function pieces(of: readonly Piece[]): string {
  return joined(
    ...of.map((piece) =>
      typeof piece === 'string' ? literal(piece) : 'made' in piece ? piece.made : `(${pieces(piece.optional)})?`,
    ),
  );
}

function* readSections(
  facts: SectionFacts,
  reader: Reader,
  tools: Tools,
  parts: AnswerParts,
): Steps<string | undefined> {
  while (yield* reader.upTo(facts.trigger, parts.content)) {
    const problem = yield* readSection(facts, reader, tools, parts);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** An answer that is calls alone, or a text. */
function* readAlone(
  facts: SectionFacts,
  reader: Reader,
  tools: Tools,
  parts: AnswerParts,
  held: boolean,
): Steps<string | undefined> {
  const { trigger, alone } = facts;
  let problem: string | undefined;
  let hasCalled = false;
  const called = {
    ...parts,
    call: (name: string) => {
      hasCalled = true;
      parts.call(name);
    },
  };
  const calls = yield* reader.tried(function* () {
    yield* reader.take(alone?.after ?? '');
    if (!(yield* reader.take(trigger))) return false;
    problem = yield* readSection(facts, reader, tools, called);
    // What a format asks for may begin as a call does.
    return !(held && problem !== undefined && !hasCalled);
  });
  if (!calls) {
    yield* reader.rest(parts.content);
    return undefined;
  }
  if (problem !== undefined) return problem;
  if (!alone) return yield* readSections(facts, reader, tools, parts);
  yield* reader.skipSpace();
  return (yield* reader.atEnd())
    ? undefined
    : `found text after a call that is the whole answer, at character ${reader.position}`;
}

/** Reads the text after the trigger. @returns what is wrong with it */
function* readSection(
  facts: SectionFacts,
  reader: Reader,
  tools: Tools,
  parts: AnswerParts,
): Steps<string | undefined> {
  const { trigger, section, between, begins, named, ends, arguments: form } = facts;
  const [opens, closes] = section ?? ['', ''];
  const from = reader.position - trigger.length;
  const wrong = (problem: string): string => `${problem}, in what begins at character ${from} of the answer`;
  if (!(yield* reader.take((opens + begins).slice(trigger.length))))
    return wrong(`expected a call, which begins with ${JSON.stringify(opens + begins)}`);
  do {
    yield* reader.skipSpace();
    const name = (yield* reader.match(NAME)) ?? '';
    const tool = tools.get(name);
    if (tool === undefined) return wrong(`found a call of ${JSON.stringify(name)}, which is none of the tools`);
    let begun = false;
    const whole =
      (yield* takePieces(named, reader)) &&
      (yield* form.read(reader, tool, (piece) => {
        if (!begun) parts.call(name);
        begun = true;
        parts.arguments(piece);
      })) &&
      (yield* takePieces(ends, reader));
    if (!whole) return wrong(`found a call of ${name} that is no whole one`);
  } while (section && between !== undefined && (yield* reader.take(between + begins)));
  return (yield* reader.take(closes)) ? undefined : wrong(`found no ${JSON.stringify(closes)} after the last call`);
}

function* takePieces(of: readonly Piece[], reader: Reader): Steps<boolean> {
  for (const piece of of) {
    if (typeof piece === 'string') {
      if (!(yield* reader.take(piece))) return false;
    } else if ('made' in piece) {
      if ((yield* reader.match(PATTERNS[piece.made])) === undefined) return false;
    } else yield* reader.tried(() => takePieces(piece.optional, reader));
  }
  return true;
}
