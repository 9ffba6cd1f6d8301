import { jsonArguments } from '../jsonArguments.js';
import { Reader } from '../Reader.js';
import { ANY, joined, literal, Rules } from '../Rules.js';
import type { CallRules, ParsedAnswer, ParsedCall, ToolForm, Tools } from '../ToolForm.js';

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

/** gpt-oss: messages on channels; one on the channel `commentary` to `functions.NAME` is a call, and the last one. */
export const harmony: ToolForm = {
  name: 'gpt-oss',
  isIn: (template) => template.includes(CHANNEL) && template.includes('functions.'),
  markers: [START, CHANNEL, CONSTRAIN, MESSAGE, END],
  stops: [CALL],
  grammar: ({ tools, choice }: CallRules) => {
    const rules = new Rules();
    const of = (before: string, after: string): string =>
      [...tools.values()]
        .map((tool) => joined(literal(before + tool.name), after, jsonArguments.rule(tool, rules)))
        .join(' | ');
    const json = (blank: string): string =>
      `(${literal(`${blank}${CONSTRAIN}json${MESSAGE}`)} | ${literal(` json${MESSAGE}`)} | ${literal(MESSAGE)})`;
    // The recipient stands behind the role or behind the channel: templates have the first, models write both.
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
    const text = rules.terminal('FREE', ANY, [marks('start|channel|message|constrain|end')]);
    return rules.from(
      joined(`(${message(ANALYSIS)} | ${message(COMMENTARY)})*`, `(${call} | ${literal(FINAL)} ${text}?)`),
    );
  },
  read,
};

/** The messages of an answer: each has a header, with whom it is to and its channel, and a text. */
function read(text: string, tools: Tools): ParsedAnswer {
  const reader = new Reader(text);
  const calls: ParsedCall[] = [];
  const reasoned: string[] = [];
  const content: string[] = [];
  const parsed = (problem?: string): ParsedAnswer => ({
    ...(reasoned.length > 0 && {
      reasoning: reasoned.join('\n\n'),
      thought: reasoned.map((each) => `${each}\n\n`).join(''),
    }),
    content: content.join('\n\n'),
    calls,
    ...(problem !== undefined && { problem }),
  });
  // The first one's role is the prompt's.
  reader.take(`${START}assistant`);
  while (!reader.atEnd) {
    const header = reader.upTo(MESSAGE);
    if (header === undefined) return unfinished(reader.text.slice(reader.at), parsed);
    const [, name] = /\bto=functions\.([A-Za-z0-9_.\-/]+)/.exec(header) ?? [];
    const [, channel] = /<\|channel\|>([a-z]+)/.exec(header) ?? [];
    if (name !== undefined) {
      const tool = tools.get(name);
      if (tool === undefined) return parsed(`found a call of ${JSON.stringify(name)}, which is none of the tools`);
      const written = jsonArguments.read(reader, tool);
      if (written === undefined) return parsed(`found a call of ${name} that is no whole one`);
      calls.push({ name, arguments: written });
      if (!(reader.take(CALL) || reader.take(END)) && reader.text.slice(reader.at).trim() !== '')
        return parsed(`found text behind the arguments of ${name}`);
    } else {
      if (header.includes(' to=')) return parsed(`found a message to ${JSON.stringify(header)}, which is no tool`);
      const whole = reader.upTo(END);
      (channel === 'analysis' ? reasoned : content).push(whole ?? reader.text.slice(reader.at));
      if (whole === undefined) return parsed();
    }
    if (!reader.atEnd && !reader.take(`${START}assistant`) && !reader.text.startsWith(' to=', reader.at))
      return parsed("found a message that is not the assistant's");
  }
  return parsed();
}

/** What there is of a message's header: one with whom it is to is a call that has no arguments yet. */
function unfinished(header: string, parsed: (problem?: string) => ParsedAnswer): ParsedAnswer {
  if (header.includes(' to=')) return parsed('found a call without arguments');
  const answer = parsed();
  return header.includes('<|') ? answer : { ...answer, content: answer.content + header };
}
