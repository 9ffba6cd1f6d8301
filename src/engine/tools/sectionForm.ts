import { splitReasoning } from '../rows/reasoning.js';
import { Reader } from './Reader.js';
import { ANY, inPattern, joined, literal, Rules } from './Rules.js';
import type { ArgumentForm, CallRules, ParsedAnswer, ParsedCall, Reasoned, ToolForm, Tools } from './ToolForm.js';

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
  /** Before a call's name, behind it, and behind its arguments. */
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
    read: (text, tools, reasoned) => readAnswer(facts, text, tools, reasoned),
    ...(id && { id }),
  };
}

function grammarOf(
  { trigger, alone, section, begins, named, ends, between, arguments: form }: SectionFacts,
  { tools, choice, parallel, marks, open }: CallRules,
): ReturnType<ToolForm['grammar']> {
  const [opens, closes] = section ?? ['', ''];
  const rules = new Rules();
  const think = rules.reasoning(marks, open);
  const call = rules.rule(
    'call',
    [...tools.values()]
      .map((tool) => joined(literal(tool.name), pieces(named), form.rule(tool, rules), pieces(ends)))
      .join(' | '),
  );
  const several = parallel && between !== undefined;
  const more = several ? `(${joined(literal(between + begins), call)})*` : '';
  if (choice === 'required') return rules.from(joined(think, literal(opens + begins), call, more, literal(closes)));
  // What begins as reasoning is that, and not text in which a call might begin.
  const reasons = marks === undefined ? [] : [`\\s*${inPattern(marks.start)}${ANY}`];
  const free = (patterns: readonly string[]): string => rules.terminal('FREE', ANY, [...patterns, ...reasons]);
  const behind = joined(literal((opens + begins).slice(trigger.length)), call, section ? more : '', literal(closes));
  if (alone) {
    const calls = joined(alone.after === '' ? '' : `${literal(alone.after)}?`, literal(trigger), behind);
    return rules.from(joined(think, `(${calls} | ${free(alone.texts)})?`));
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

function readAnswer(facts: SectionFacts, text: string, tools: Tools, { marks, open }: Reasoned): ParsedAnswer {
  const { reasoning, text: answer } = marks === undefined ? { text } : splitReasoning(text, marks, open);
  const { trigger, alone } = facts;
  const reader = new Reader(answer);
  const calls: ParsedCall[] = [];
  let content = '';
  const parsed = (problem?: string): ParsedAnswer => ({
    ...(reasoning !== undefined && { reasoning, thought: text.slice(0, text.length - answer.length) }),
    content: calls.length === 0 ? content : content.trim(),
    calls,
    ...(problem !== undefined && { problem }),
  });
  for (;;) {
    const from = reader.at;
    const at = alone ? startOf(reader, trigger, alone.after) : answer.indexOf(trigger, from);
    content += answer.slice(from, at < 0 ? undefined : at);
    if (at < 0) return parsed();
    reader.at = at;
    const problem = readSection(facts, reader, tools, calls);
    if (problem !== undefined) return parsed(`${problem}, in what begins at character ${at} of the answer`);
    if (alone && answer.slice(reader.at).trim() !== '')
      return parsed(`found text behind a call that is the whole answer, at character ${reader.at}`);
  }
}

/** Where an answer begins that is calls alone; -1 where it is none. */
function startOf(reader: Reader, trigger: string, after: string): number {
  if (reader.at > 0) return -1;
  if (after !== '') reader.take(after);
  reader.skipSpace();
  const { at } = reader;
  const begins = reader.take(trigger);
  return begins ? at : -1;
}

/** @returns what is wrong with it */
function readSection(facts: SectionFacts, reader: Reader, tools: Tools, calls: ParsedCall[]): string | undefined {
  const { section, between, begins, named, ends, arguments: form } = facts;
  const [opens, closes] = section ?? ['', ''];
  if (!reader.take(opens + begins)) return `expected a call, which begins with ${JSON.stringify(opens + begins)}`;
  do {
    reader.skipSpace();
    const name = reader.match(NAME) ?? '';
    const tool = tools.get(name);
    if (tool === undefined) return `found a call of ${JSON.stringify(name)}, which is none of the tools`;
    const written = takePieces(named, reader) ? form.read(reader, tool) : undefined;
    if (written === undefined || !takePieces(ends, reader)) return `found a call of ${name} that is no whole one`;
    calls.push({ name, arguments: written });
  } while (section && between !== undefined && reader.take(between + begins));
  return reader.take(closes) ? undefined : `found no ${JSON.stringify(closes)} behind the last call`;
}

function takePieces(of: readonly Piece[], reader: Reader): boolean {
  return of.every((piece) => {
    if (typeof piece === 'string') return reader.take(piece);
    if ('made' in piece) return reader.match(PATTERNS[piece.made]) !== undefined;
    const from = reader.at;
    if (!takePieces(piece.optional, reader)) reader.at = from;
    return true;
  });
}
