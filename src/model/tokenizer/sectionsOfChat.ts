import type { Work } from '../../collections/drained.js';
import { isObject } from '../../arguments/isObject.js';
import { SpelledNumber } from '../../arguments/jsonNumbers.js';
import type { ChatMessage, TemplateInput } from '../Tokenizer.js';
import type { AddedToken, AddedTokens, Section } from './AddedTokens.js';
import { PART_UNITS, partsOf, rewritten } from './parts.js';

/** All that a chat template is given. */
export interface Chat {
  readonly messages: readonly ChatMessage[];
  readonly input: TemplateInput;
}

/** Renders a chat, at once or stopping on its way. */
export type RenderChat = (chat: Chat) => string | Work<string>;

/**
 * Cuts a rendered conversation into the template's own control tokens and text that is data, whatever control text the
 * messages hold.
 *
 * The messages are rendered with a marker, a character that occurs nowhere else, after every character of theirs that
 * could begin a control token. In the rendered text then only the template's own control tokens match, even if the
 * template cuts and joins the messages' text. A template that looks for control text in the messages (such as
 * `</think>`) could take another branch because of the markers; where that shows in the text, only whole control tokens
 * inside the messages are marked.
 * @param plain the messages rendered as they are
 */
export function* sectionsOfChat(render: RenderChat, chat: Chat, plain: string, matcher: AddedTokens): Work<Section[]> {
  const control = matcher.tokens;
  const marker = yield* unusedCharacter(plain, chat);
  const first = firstUnits(control);
  const characters: Marker = (text) => rewritten(text, (part) => part.replaceAll(first, `$&${marker}`));
  const tokens: Marker = (text, isName) => markTokens(text, isName, matcher, marker);
  const renderMarked = function* (as: Marker): Work<string> {
    return yield* done(render(yield* markedChat(chat, as)));
  };
  yield;
  const everywhere = yield* renderMarked(characters);
  yield;
  const rendered = (yield* isMarked(everywhere, marker, plain)) ? everywhere : yield* renderMarked(tokens);
  const sections: Section[] = [];
  for (const section of yield* matcher.splitInParts(rendered, () => true)) {
    if ('token' in section) sections.push(section);
    else {
      const text = yield* done(rewritten(section.text, (part) => without(part, marker)));
      if (text !== '') sections.push({ text, start: section.start });
    }
    if (sections.length % PART_UNITS === 0) yield;
  }
  return sections;
}

/** A text without markers, in one piece: V8 replaces by making a tree of pieces, which take their time later. */
function without(text: string, marker: string): string {
  return text.split(marker).join('');
}

/** Tells whether a text is another one with markers. */
function* isMarked(text: string, marker: string, plain: string): Work<boolean> {
  let at = 0;
  for (const part of partsOf(text)) {
    const own = without(part, marker);
    if (!plain.startsWith(own, at)) return false;
    at += own.length;
    yield;
  }
  return at === plain.length;
}

/** Marks data: a text, or the name of a member. */
type Marker = (text: string, isName: boolean) => string | Work<string>;

function* done(made: string | Work<string>): Work<string> {
  return typeof made === 'string' ? made : yield* made;
}

/** Marks a chat; the names of members, of messages and of the input, are no data. */
function* markedChat({ messages, input: { tools, templateArgs, ...more } }: Chat, marker: Marker): Work<Chat> {
  const own: ChatMessage[] = [];
  for (const message of messages) own.push(yield* markedValues(message, marker));
  return {
    messages: own,
    input: {
      ...more,
      tools: tools && (yield* markedList(tools, marker)),
      templateArgs: templateArgs && (yield* markedValues(templateArgs, marker)),
    },
  };
}

function* marked(value: unknown, marker: Marker): Work<unknown> {
  if (typeof value === 'string') return yield* done(marker(value, false));
  if (Array.isArray(value)) return yield* markedList(value, marker);
  if (!isObject(value) || value instanceof SpelledNumber) return value;
  return yield* markedValues(value, marker, true);
}

function* markedList(list: readonly unknown[], marker: Marker): Work<unknown[]> {
  const made: unknown[] = [];
  for (const each of list) made.push(yield* marked(each, marker));
  return made;
}

function* markedValues<T extends object>(of: T, marker: Marker, names = false): Work<T> {
  const members: [string, unknown][] = [];
  for (const [name, value] of Object.entries(of))
    members.push([names ? yield* done(marker(name, true)) : name, yield* marked(value, marker)]);
  return Object.fromEntries(members) as T;
}

/** Finds the units that control tokens begin with. */
function firstUnits(control: readonly AddedToken[]): RegExp {
  const units = new Set(control.map(({ content }) => content.charCodeAt(0)));
  return new RegExp(`[${[...units].map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}]`, 'g');
}

/**
 * Breaks whole control tokens; in a text that is no name beginnings and ends of them, too, where it ends: the
 * template's text may complete them.
 */
function* markTokens(text: string, isName: boolean, matcher: AddedTokens, marker: string): Work<string> {
  const parts: string[] = [];
  for (const part of yield* matcher.splitInParts(text, () => true))
    parts.push('token' in part ? part.token.content.charAt(0) + marker + part.token.content.slice(1) : part.text);
  const broken = parts.join('');
  if (isName) return broken;
  const { tokens } = matcher;
  const begins = touches(tokens, (content, size) => broken.startsWith(content.slice(content.length - size)));
  const result = begins ? marker + broken : broken;
  return touches(tokens, (content, size) => result.endsWith(content.slice(0, size))) ? result + marker : result;
}

/** Tells whether `matches` holds for a proper part, of some size, of some control token. */
function touches(control: readonly AddedToken[], matches: (content: string, size: number) => boolean): boolean {
  return control.some(({ content }) => {
    for (let size = 1; size < content.length; size++) if (matches(content, size)) return true;
    return false;
  });
}

/** A noncharacter, or a private one, that does not occur in a chat, rendered or not. */
function* unusedCharacter(plain: string, chat: Chat): Work<string> {
  let code = 0xfdd0;
  const given = JSON.stringify(chat);
  yield;
  if (![plain, given].some((text) => text.includes(String.fromCodePoint(code)))) return String.fromCodePoint(code);
  const used = new Set<string>();
  let looked = 0;
  for (const text of [plain, given])
    for (const character of text) {
      used.add(character);
      if ((looked += 1) % PART_UNITS === 0) yield;
    }
  while (used.has(String.fromCodePoint(code))) code = code === 0xfdef ? 0xe000 : code === 0xf8ff ? 0xf0000 : code + 1;
  return String.fromCodePoint(code);
}
