import { setOwn } from '../../collections/setOwn.js';

/** Units of a text that are a part of their own. */
const PIECE_UNITS = 2 ** 18;

/**
 * A part of a value of lists, objects and what JSON has else: a number, truth value, null or short text as it is; a
 * piece of a longer text; where a list or an object begins, whose keys and values then take turns; where it ends.
 */
export type ValuePart =
  | undefined
  | null
  | string
  | number
  | boolean
  | { readonly text: string; readonly goesOn: boolean }
  | { readonly begins: 'list' | 'object' }
  | { readonly ends: true };

const LIST = { begins: 'list' } as const;
const OBJECT = { begins: 'object' } as const;
const ENDS = { ends: true } as const;

/** A value part by part, however deep it is. */
export function* partsOf(value: unknown): Generator<ValuePart, void, undefined> {
  const open: Iterator<unknown>[] = [[value].values()];
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    const step = inner.next();
    const one: unknown = step.value;
    if (step.done === true) {
      open.pop();
      if (open.length > 0) yield ENDS;
    } else if (Array.isArray(one)) {
      yield LIST;
      open.push((one as readonly unknown[]).values());
    } else if (typeof one === 'object' && one !== null) {
      yield OBJECT;
      // Keys and values by turns.
      open.push((Object.entries(one) as [string, unknown][]).flat().values());
    } else if (typeof one === 'string' && one.length > PIECE_UNITS) {
      for (let at = 0; at < one.length; at += PIECE_UNITS)
        yield { text: one.slice(at, at + PIECE_UNITS), goesOn: at + PIECE_UNITS < one.length };
    } else yield one as ValuePart;
  }
}

/** Gives the bytes that a part takes, roughly. */
export function bytesOfPart(part: ValuePart): number {
  if (typeof part === 'string') return 16 + 2 * part.length;
  return typeof part === 'object' && part !== null && 'text' in part ? 16 + 2 * part.text.length : 16;
}

/** Puts a value together again. */
export class ValueBuilder {
  /** The value that was put together, once all parts have come. */
  value: unknown;
  readonly #open: { readonly made: unknown[] | Record<string, unknown>; key: string | undefined }[] = [];
  #text = '';

  add(part: ValuePart): void {
    if (typeof part !== 'object' || part === null) this.#put(part);
    else if ('begins' in part) {
      const made = part.begins === 'list' ? [] : {};
      this.#put(made);
      this.#open.push({ made, key: undefined });
    } else if ('ends' in part) this.#open.pop();
    else {
      // V8 keeps the pieces as they are until somebody goes through all of it.
      this.#text += part.text;
      if (part.goesOn) return;
      const text = this.#text;
      this.#text = '';
      this.#put(text);
    }
  }

  #put(value: unknown): void {
    const inner = this.#open.at(-1);
    if (inner === undefined) this.value = value;
    else if (Array.isArray(inner.made)) inner.made.push(value);
    else if (inner.key === undefined) inner.key = String(value);
    else {
      const { key } = inner;
      inner.key = undefined;
      setOwn(inner.made, key, value);
    }
  }
}
