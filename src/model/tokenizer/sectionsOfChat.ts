import type { ChatMessage } from '../Tokenizer.js';
import type { AddedToken, AddedTokens, Section } from './AddedTokens.js';

/**
 * Cuts a rendered conversation into the template's own control tokens and text that is data, whatever control text the messages hold.
 *
 * The messages are rendered with a marker, a character that occurs nowhere else, behind every character of theirs that could begin
 * a control token. In the rendered text then only the template's own control tokens match, even if the template cuts and joins
 * the messages' text. A template that looks for control text in the messages (such as `</think>`) could take another branch because of
 * the markers; where that shows in the text, only whole control tokens inside the messages are marked.
 * @param plain the messages rendered as they are
 */
export function sectionsOfChat(render: (messages: readonly ChatMessage[]) => string, messages: readonly ChatMessage[], plain: string, matcher: AddedTokens): Section[] {
  const control = matcher.tokens;
  const marker = unusedCharacter(plain, messages);
  const first = new Set(control.map((token) => token.content.charAt(0)));
  const everywhere = render(mark(messages, (text) => markCharacters(text, first, marker)));
  const rendered = everywhere.replaceAll(marker, '') === plain ? everywhere : render(mark(messages, (text) => markTokens(text, matcher, control, marker)));
  return matcher
    .split(rendered, () => true)
    .map((section) => ('token' in section ? section : { text: section.text.replaceAll(marker, ''), start: section.start }))
    .filter((section) => 'token' in section || section.text !== '');
}

function mark(messages: readonly ChatMessage[], change: (text: string) => string): ChatMessage[] {
  return messages.map((message) => ({ role: change(message.role), content: change(message.content) }));
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

/** Breaks whole control tokens, and beginnings and ends of them where the text ends, since the template's text may complete them. */
function markTokens(text: string, matcher: AddedTokens, control: readonly AddedToken[], marker: string): string {
  let result = '';
  for (const section of matcher.split(text, () => true)) {
    result += 'token' in section ? section.token.content.charAt(0) + marker + section.token.content.slice(1) : section.text;
  }
  if (touches(control, (content, size) => result.startsWith(content.slice(content.length - size)))) result = marker + result;
  return touches(control, (content, size) => result.endsWith(content.slice(0, size))) ? result + marker : result;
}

/** Whether `matches` holds for a proper part, of some size, of some control token. */
function touches(control: readonly AddedToken[], matches: (content: string, size: number) => boolean): boolean {
  return control.some(({ content }) => {
    for (let size = 1; size < content.length; size++) if (matches(content, size)) return true;
    return false;
  });
}

/** A noncharacter, or a private one, that occurs neither in the rendered text nor in the messages. */
function unusedCharacter(rendered: string, messages: readonly ChatMessage[]): string {
  const used = new Set(rendered);
  for (const { role, content } of messages) for (const character of role + content) used.add(character);
  let code = 0xfdd0;
  while (used.has(String.fromCodePoint(code))) code = code === 0xfdef ? 0xe000 : code === 0xf8ff ? 0xf0000 : code + 1;
  return String.fromCodePoint(code);
}
