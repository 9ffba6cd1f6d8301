import { make } from './meter.js';
import { str } from './text.js';
import { Float, Markup, type Value } from './values.js';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** A text as HTML. */
export function escapeText(text: string): string {
  const escaped = text.replace(/[&<>'"]/g, (character) => ENTITIES[character] ?? character);
  make(escaped.length);
  return escaped;
}

/** A value as HTML, as markupsafe's `escape` makes it. */
export function escape(value: Value): Markup {
  return value instanceof Markup ? value : new Markup(escapeText(str(value)));
}

/** Gives what Markup makes of a value that is put into it: texts are escaped, numbers are not. */
export function markupArgument(value: Value): Value {
  if (value instanceof Markup || value instanceof Float) return value;
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return value;
  return escape(value);
}
