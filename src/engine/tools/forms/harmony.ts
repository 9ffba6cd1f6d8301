import { jsonArguments } from '../jsonArguments.js';
import type { Reader, Steps } from '../Reader.js';
import { ANY, joined, literal, Rules } from '../Rules.js';
import type { AnswerParts, CallRules, ToolForm, Tools } from '../ToolForm.js';

const [START, CHANNEL, CONSTRAIN, MESSAGE, END] = [
  '<|start|>',
  '<|channel|>',
  '<|constrain|>',
  '<|message|>',
  '<|end|>',
] as const;
const CALL = '<|call|>';
const ANALYSIS = `${CHANNEL}analysis${MESSAGE}`;
const COMMENTARY = `${CHANNEL}commentary${MESSAGE}`;
const FINAL = `${CHANNEL}final${MESSAGE}`;
const TO = 'to=functions.';
/** Between messages that are one text. */
const SEPARATOR = '\n\n';

/** gpt-oss: messages on channels; one on the channel `commentary` to `functions.NAME` is a call, and the last one. */
export const harmony: ToolForm = {
  name: 'gpt-oss',
  isIn: (template) => template.includes(CHANNEL) && template.includes('functions.'),
  markers: [START, CHANNEL, CONSTRAIN, MESSAGE, END],
  stops: [CALL],
  grammar: ({ tools, choice, text: held }: CallRules) => {
    const rules = new Rules();
    const of = (before: string, after: string): string =>
      [...tools.values()]
        .map((tool) => joined(literal(before + tool.name), after, jsonArguments.rule(tool, rules)))
        .join(' | ');
    const json = (blank: string): string =>
      `(${literal(`${blank}${CONSTRAIN}json${MESSAGE}`)} | ${literal(` json${MESSAGE}`)} | ${literal(MESSAGE)})`;
    // The recipient stands after the role or after the channel: templates have the first, models write both.
    const call = rules.rule(
      'call',
      `${of(`${CHANNEL}commentary ${TO}`, json(' '))} | ${of(` ${TO}`, joined(literal(`${CHANNEL}commentary`), json(' ')))}`,
    );
    const behind = literal(`${START}assistant`);
    const marks = (of: string): string => `${ANY}<\\|(${of})\\|>${ANY}`;
    const plain = rules.terminal('PLAIN', ANY, [marks('start|channel|message|constrain')]);
    const message = (begins: string): string => joined(literal(begins), rules.upTo(END, plain), behind);
    const thought = `(${message(ANALYSIS)})*`;
    if (choice === 'required') return rules.from(joined(thought, call));
    if (held) return rules.from(joined(thought, `(${call} | ${literal(FINAL)} ${held(rules)})`));
    const text = rules.terminal('FREE', ANY, [marks('start|channel|message|constrain|end')]);
    return rules.from(
      joined(`(${message(ANALYSIS)} | ${message(COMMENTARY)})*`, `(${call} | ${literal(FINAL)} ${text}?)`),
    );
  },
  read,
  readsReasoning: true,
  opens: `${START}assistant`,
};

/** The messages of an answer: each has a header, with whom it is to and its channel, and a text. */
function* read(reader: Reader, tools: Tools, parts: AnswerParts): Steps<string | undefined> {
  const texts = { thoughts: 0, contents: 0 };
  // The first one's role is the prompt's.
  yield* reader.take(`${START}assistant`);
  while (!(yield* reader.atEnd())) {
    let header = '';
    if (!(yield* reader.upTo(MESSAGE, (piece) => (header += piece)))) {
      // One with whom it is to is a call that has no arguments yet.
      if (header.includes(' to=') && tools.size > 0) return 'found a call without arguments';
      if (!header.includes('<|')) parts.content(header);
      return undefined;
    }
    const [, name] = /\bto=functions\.([A-Za-z0-9_.\-/]+)/.exec(header) ?? [];
    // Where there are no tools, what is to one is said to nobody.
    const alone = tools.size === 0;
    const [, channel] = /<\|channel\|>([a-z]+)/.exec(header) ?? [];
    if (name !== undefined && !alone) {
      const tool = tools.get(name);
      if (tool === undefined) return `found a call of ${JSON.stringify(name)}, which is none of the tools`;
      parts.call(name);
      if (!(yield* jsonArguments.read(reader, tool, parts.arguments)))
        return `found a call of ${name} that is no whole one`;
      yield* reader.skipSpace();
      if (!(yield* reader.take(CALL)) && !(yield* reader.take(END)) && !(yield* reader.atEnd()))
        return `found text after the arguments of ${name}`;
    } else if (header.includes(' to=') && !alone)
      return `found a message to ${JSON.stringify(header)}, which is no tool`;
    else if (channel === 'analysis') {
      if (texts.thoughts + texts.contents > 0) parts.thought(SEPARATOR);
      parts.reasoning(texts.thoughts++ > 0 ? SEPARATOR : '');
      const whole = yield* reader.upTo(END, (piece) => {
        parts.reasoning(piece);
        parts.thought(piece);
      });
      if (!whole) return undefined;
    } else {
      if (texts.contents++ > 0) parts.content(SEPARATOR);
      else if (texts.thoughts > 0) parts.thought(SEPARATOR);
      if (!(yield* reader.upTo(END, parts.content))) return undefined;
    }
    if (yield* reader.atEnd()) return undefined;
    // A recipient may stand after a role that is not said again.
    if (!(yield* reader.take(`${START}assistant`)) && !(yield* reader.sees(' to=')) && !alone)
      return "found a message that is not the assistant's";
  }
  return undefined;
}
