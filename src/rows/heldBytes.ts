/** Bytes that a value takes beside what is in it, and that a member of an object takes, and a number in a list. */
const VALUE_BYTES = 16;
const MEMBER_BYTES = 8;

/** Bytes that a token takes in a list, and with its alternatives in log-probabilities. */
const TOKEN_BYTES = 8;
const LOGPROB_BYTES = 64;

/** Gives the bytes of a prompt's tokens. */
export function tokenBytes(tokens: { readonly length: number }): number {
  return tokens.length * TOKEN_BYTES;
}

/** Gives the bytes of so many log-probabilities: tokens and alternatives. */
export function logprobBytes(count: number): number {
  return count * LOGPROB_BYTES;
}

/** Gives the bytes that a member of a list or an object takes, without what is in it where that is one itself. */
export function memberBytes(value: unknown): number {
  if (typeof value === 'string') return MEMBER_BYTES + VALUE_BYTES + 2 * value.length;
  return typeof value === 'object' && value !== null ? MEMBER_BYTES + VALUE_BYTES : MEMBER_BYTES;
}

/** Gives the bytes that the name of a member takes. */
export function keyBytes(key: string): number {
  return VALUE_BYTES + 2 * key.length;
}

/**
 * About how many bytes a value takes that a row brings or its result has: its strings, keys and buffers, lists and
 * objects, however deep and however often it leads to itself. Never throws.
 * @param most nothing is looked at beyond so many: what callers hand over may lead to anything
 * @param without what of it is not counted
 */
export function heldBytes(value: unknown, most: number, without?: unknown): number {
  const seen = new Set([without]);
  const left: unknown[] = [value];
  let bytes = 0;
  while (left.length > 0 && bytes <= most) {
    const next = left.pop();
    bytes += VALUE_BYTES;
    if (typeof next === 'string') bytes += 2 * next.length;
    else if (ArrayBuffer.isView(next)) bytes += next.byteLength;
    else if (typeof next === 'object' && next !== null && !seen.has(next)) {
      seen.add(next);
      bytes += addMembers(next, left, most - bytes);
    }
  }
  return Math.min(bytes, most);
}

/** @returns what is not in those that were added */
function addMembers(value: object, to: unknown[], most: number): number {
  let bytes = 0;
  const add = (member: unknown): void => {
    if (typeof member === 'object' && member !== null) {
      // What it takes itself counts once it is looked into.
      bytes += MEMBER_BYTES;
      to.push(member);
    } else bytes += memberBytes(member);
  };
  try {
    if (Array.isArray(value)) for (let at = 0; at < value.length && bytes <= most; at++) add(value[at]);
    else
      for (const key of Object.keys(value)) {
        if (bytes > most) break;
        bytes += keyBytes(key);
        add((value as Readonly<Record<string, unknown>>)[key]);
      }
  } catch {
    // A getter that throws: what it would have given is not held.
  }
  return bytes;
}
