import type { Work } from '../../collections/drained.js';
import { isObject } from '../../arguments/isObject.js';
import { SpelledNumber } from '../../arguments/jsonNumbers.js';
import type { ChatMessage, TemplateInput } from '../Tokenizer.js';
import type { AddedToken, AddedTokens, Section } from './AddedTokens.js';

/** All that a chat template is given. */
export interface Chat {
  readonly messages: readonly ChatMessage[];
  readonly input: TemplateInput;
}

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
export function* sectionsOfChat(
  render: (chat: Chat) => string,
  chat: Chat,
  plain: string,
  matcher: AddedTokens,
): Work<Section[]> {
  const control = matcher.tokens;
  const marker = unusedCharacter(plain + JSON.stringify(chat));
  const first = new Set(control.map((token) => token.content.charAt(0)));
  const characters: Marker = {
    text: (text) => markCharacters(text, first, marker),
    name: (name) => markCharacters(name, first, marker),
  };
  const tokens: Marker = {
    text: (text) => markTokens(text, matcher, control, marker),
    name: (name) => breakTokens(name, matcher, marker),
  };
  yield;
  const everywhere = render(markedChat(chat, characters));
  yield;
  const rendered = everywhere.replaceAll(marker, '') === plain ? everywhere : render(markedChat(chat, tokens));
  return (yield* matcher.splitInParts(rendered, () => true))
    .map((section) =>
      'token' in section ? section : { text: section.text.replaceAll(marker, ''), start: section.start },
    )
    .filter((section) => 'token' in section || section.text !== '');
}

/** How data is marked: its texts, and the names of its members. */
interface Marker {
  text(text: string): string;
  name(name: string): string;
}

/** Marks a chat; the names of members, of messages and of the input, are no data. */
function markedChat({ messages, input: { tools, templateArgs, ...more } }: Chat, marker: Marker): Chat {
  const values = <T extends object>(of: T): T =>
    Object.fromEntries(Object.entries(of).map(([name, value]) => [name, marked(value, marker)])) as T;
  return {
    messages: messages.map(values),
    input: {
      ...more,
      tools: tools?.map((tool) => marked(tool, marker)),
      templateArgs: templateArgs && values(templateArgs),
    },
  };
}

function marked(value: unknown, marker: Marker): unknown {
  if (typeof value === 'string') return marker.text(value);
  if (Array.isArray(value)) return value.map((each) => marked(each, marker));
  if (!isObject(value) || value instanceof SpelledNumber) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [marker.name(name), marked(each, marker)]));
}

function markCharacters(text: string, first: ReadonlySet<string>, marker: string): string {
  let result = '';
  let done = 0;
  for (let at = 0; at < text.length; at++) {
    if (!first.has(text.charAt(at))) continue;
    result += text.slice(done, at + 1) + marker;
    done = at + 1;
  }
  return result + text.slice(done);
}

/**
 * Breaks whole control tokens, and beginnings and ends of them where the text ends, since the template's text may
 * complete them.
 */
function markTokens(text: string, matcher: AddedTokens, control: readonly AddedToken[], marker: string): string {
  let result = breakTokens(text, matcher, marker);
  if (touches(control, (content, size) => result.startsWith(content.slice(content.length - size))))
    result = marker + result;
  return touches(control, (content, size) => result.endsWith(content.slice(0, size))) ? result + marker : result;
}

function breakTokens(text: string, matcher: AddedTokens, marker: string): string {
  const parts = matcher.split(text, () => true);
  return parts
    .map((part) => ('token' in part ? part.token.content.charAt(0) + marker + part.token.content.slice(1) : part.text))
    .join('');
}

/** Tells whether `matches` holds for a proper part, of some size, of some control token. */
function touches(control: readonly AddedToken[], matches: (content: string, size: number) => boolean): boolean {
  return control.some(({ content }) => {
    for (let size = 1; size < content.length; size++) if (matches(content, size)) return true;
    return false;
  });
}

/** A noncharacter, or a private one, that does not occur in the text. */
function unusedCharacter(text: string): string {
  const used = new Set(text);
  let code = 0xfdd0;
  while (used.has(String.fromCodePoint(code))) code = code === 0xfdef ? 0xe000 : code === 0xf8ff ? 0xf0000 : code + 1;
  return String.fromCodePoint(code);
}
