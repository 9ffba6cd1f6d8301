const [QUOTE, BACKSLASH, COLON, POINT, ZERO, NINE] = [0x22, 0x5c, 0x3a, 0x2e, 0x30, 0x39];
const [OPENS_LIST, OPENS_OBJECT, CLOSES_LIST, CLOSES_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d];

/** The bytes that each takes in the heap of V8, as measured, and where making it takes longer than that, more. */
const STRING_BYTES = 40;
const OBJECT_BYTES = 64;
const LIST_BYTES = 48;
/** A key that no object shortly before had: a place in tables of keys, and a shape of its own. */
const NEW_KEY_BYTES = 256;
/** A whole number of so many digits may lose some as a number, and is made a text as well. */
const LONG_NUMBER = 16;
/** By characters outside of strings: lists, objects, members, fractions (they are read digit by digit), the rest. */
const BYTES_OF = new Uint8Array(256).fill(1);
for (const [character, bytes] of Object.entries({ '{': OBJECT_BYTES, '[': LIST_BYTES, ',': 8, '.': 24, e: 24, E: 24 }))
  BYTES_OF[character.charCodeAt(0)] = bytes;
/** Lists within so many lists and objects take twice as long to be made: the collector of garbage follows them down. */
const DEEP = 32;
const DEEP_BYTES = 64;
/** No bytes of JSON come to more each than brackets that follow one another. */
const MOST_BYTES_EACH = LIST_BYTES + DEEP_BYTES;

/** Bytes between two looks at what it comes to. */
const SLICE_BYTES = 2 ** 18;
/** Keys that are remembered, by their hash: of those that come again the last few hundred. */
const KEYS = 512;

/** Tells whether a text of JSON is so short that the memory it comes to need not be looked at. */
export function takesAtMost(bytes: number, most: number): boolean {
  return bytes * MOST_BYTES_EACH <= most;
}

/**
 * About how many bytes the values of a text of JSON take in memory when they are read, and what they take to be read:
 * told by its brackets, commas, quotes and keys, before anything of it is made. JSON.parse makes up to sixty bytes of
 * one, and keeps its thread until it is done. Whether it is JSON at all is not looked at.
 * @returns what it has come to so far, after each piece of it and at the end: whoever iterates may stop, or wait
 */
export function* jsonMemory(json: Buffer): Generator<number, void, undefined> {
  const keys = new Uint32Array(KEYS);
  let bytes = 0;
  let next = SLICE_BYTES;
  let [start, end] = [0, 0];
  let [digits, depth] = [0, 0];
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] ?? 0;
    if (byte >= ZERO && byte <= NINE) {
      bytes += ++digits === LONG_NUMBER ? STRING_BYTES + LONG_NUMBER : 1;
    } else {
      // What comes of a fraction has its price.
      digits = byte === POINT ? -Infinity : 0;
      if (byte === QUOTE) {
        start = at + 1;
        at = end = endOfString(json, start);
        bytes += STRING_BYTES + end - start;
      } else if (byte === COLON) bytes += keyBytes(keys, hashOf(json, start, end));
      else {
        bytes += BYTES_OF[byte] ?? 1;
        if (byte === OPENS_LIST || byte === OPENS_OBJECT) {
          if (++depth > DEEP && byte === OPENS_LIST) bytes += DEEP_BYTES;
        } else if (byte === CLOSES_LIST || byte === CLOSES_OBJECT) depth--;
      }
    }
    if (at >= next) {
      yield bytes;
      next = at + SLICE_BYTES;
    }
  }
  yield bytes;
}

/** The same at once. */
export function exceedsMemory(json: Buffer, most: number): boolean {
  if (takesAtMost(json.length, most)) return false;
  for (const bytes of jsonMemory(json)) if (bytes > most) return true;
  return false;
}

function endOfString(json: Buffer, from: number): number {
  let at = from;
  for (; at < json.length && json[at] !== QUOTE; at++) if (json[at] === BACKSLASH) at++;
  return Math.min(at, json.length);
}

/** FNV-1a of a key; of a long one its beginning. */
function hashOf(json: Buffer, start: number, end: number): number {
  let hash = 0x811c9dc5 ^ (end - start);
  for (let at = start; at < Math.min(end, start + 64); at++) hash = Math.imul(hash ^ (json[at] ?? 0), 0x01000193);
  return hash >>> 0;
}

function keyBytes(keys: Uint32Array, hash: number): number {
  if (keys[hash % KEYS] === hash) return 0;
  keys[hash % KEYS] = hash;
  return NEW_KEY_BYTES;
}
