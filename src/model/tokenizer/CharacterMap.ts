import { foundInFile } from '../../arguments/found.js';
import type { Work } from '../../collections/drained.js';
import type { Steps } from '../../regex/Steps.js';
import type { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { checkGrowth, mostGrown } from './growth.js';
import { PART_UNITS } from './parts.js';

/** Bytes of the number before the trie, which says how many bytes the trie has; and of one of its nodes. */
const WORD = 4;
/** tokenizers looks for clusters of up to so many bytes as a whole. */
const CLUSTER_BYTES = 5;
/** The characters that go on with the cluster before them: Unicode's Extend, ZWJ and SpacingMark. */
const EXTENDING = String.raw`(?:[\p{Grapheme_Extend}\p{Emoji_Modifier}\u200d\u0e33\u0eb3]|(?![\u102b\u102c\u1038\u1062-\u1064\u1067-\u106d\u1083\u1087-\u108c\u108f\u109a-\u109c\u1a61\u1a63\u1a64\uaa7b\uaa7d\u{11720}\u{11721}])\p{Mc})`;
const PREPENDED = String.raw`[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\u{110bd}\u{110cd}\u{111c2}\u{111c3}\u{1193f}\u{11941}\u{11a3a}\u{11a84}-\u{11a89}\u{11d46}\u{11f02}]`;
const BASE = String.raw`(?:[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|[\u200c\u200d\u{e0020}-\u{e007f}])`;
const JOINED = String.raw`\p{Extended_Pictographic}(?:${EXTENDING}*\u200d\p{Extended_Pictographic})+`;
/**
 * Clusters of several characters, as far as they may have so few bytes: Intl.Segmenter takes a hundred times as long.
 */
const CLUSTERS = new RegExp(
  `\\r\\n|${PREPENDED}+(?:${JOINED}|${BASE})${EXTENDING}*|${JOINED}${EXTENDING}*|${BASE}${EXTENDING}+`,
  'gu',
);
/** Units before which no cluster goes on, if what stands before them is none of the others. */
const FIRST = /[ -~\u0410-\u044f\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff]/;
const JOINING = /[\p{M}\p{Cf}\p{Cc}]/u;
/** Characters whose replacement is remembered. */
const REMEMBERED = 65_536;

/**
 * SentencePiece's precompiled map of characters: a double-array trie over UTF-8 bytes, then the texts that stand in for
 * what it finds, each ended by a zero byte.
 */
export class CharacterMap {
  readonly #trie: Uint32Array;
  readonly #texts: Uint8Array;
  readonly #utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  /** The text that stands in for a character by itself; undefined for one that stays. */
  readonly #characters = new Map<number, string | undefined>();
  /** UTF-16 units of the key that was found last. */
  #matched = 0;

  constructor(fields: Fields, field: string, bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length < WORD ? -1 : view.getUint32(0, true);
    if (size < WORD || size % WORD !== 0 || size > bytes.length - WORD)
      fields.refuse(
        field,
        `${bytes.length} bytes${size < 0 ? '' : `, of which ${size} are a trie`}`,
        'a trie in whole words of 4 bytes, its size before it and texts after it',
      );
    this.#trie = Uint32Array.from({ length: size / WORD }, (_, i) => view.getUint32(WORD * (1 + i), true));
    this.#texts = bytes.subarray(WORD + size);
    const most = TOKENIZER_LIMITS.mappedBytes;
    for (let start = 0, end; start < this.#texts.length; start = end + 1) {
      end = this.#endOf(start);
      if (end - start > most) fields.refuse(field, `a text of ${end - start} bytes`, `texts of at most ${most}`);
    }
  }

  /** The map of tokenizer.json, in base64. */
  static ofBase64(fields: Fields, field: string, value: unknown): CharacterMap {
    const text = typeof value === 'string' ? value : fields.refuse(field, foundInFile(value), 'a text in base64');
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) fields.refuse(field, foundInFile(text), 'a text in base64');
    return new CharacterMap(fields, field, Buffer.from(text, 'base64'));
  }

  /**
   * As tokenizers has it: a short cluster of characters (a letter and its marks) becomes what stands in for the
   * shortest key that it begins with, all of it; and any other character by itself.
   */
  *byClusters(text: string, steps: Steps): Work<string> {
    const parts: string[] = [];
    const most = mostGrown(text.length);
    let made = 0;
    for (let start = 0; start < text.length;) {
      const end = clusterEnd(text, Math.min(text.length, start + PART_UNITS));
      const part = this.#clustersOf(text.slice(start, end), steps);
      made += part.length;
      if (made > most) checkGrowth('normalizer', text.length, made);
      parts.push(part);
      start = end;
      if (start < text.length) yield;
    }
    return parts.join('');
  }

  /** As SentencePiece and llama.cpp have it: at each place the longest key is replaced. */
  *byLongest(text: string, steps: Steps): Work<string> {
    const most = mostGrown(text.length);
    const blocks: string[] = [];
    let [block, kept, made] = ['', 0, 0];
    for (let at = 0, stop = PART_UNITS; at < text.length;) {
      const found = this.#find(text, at, text.length, true, steps);
      if (found < 0) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
      else {
        const content = this.#textAt(found);
        made += content.length + at - kept;
        if (made > most) checkGrowth('normalizer', text.length, made);
        block += text.slice(kept, at) + content;
        at += this.#matched;
        kept = at;
      }
      if (at < stop || at >= text.length) continue;
      stop = at + PART_UNITS;
      blocks.push(block + text.slice(kept, at));
      [block, kept] = ['', at];
      yield;
    }
    return blocks.join('') + block + text.slice(kept);
  }

  #clustersOf(text: string, steps: Steps): string {
    let made = '';
    let kept = 0;
    for (const { 0: cluster, index } of text.matchAll(CLUSTERS)) {
      if (Buffer.byteLength(cluster) > CLUSTER_BYTES) continue;
      const found = this.#find(cluster, 0, cluster.length, false, steps);
      if (found < 0) continue;
      made += this.#charactersOf(text.slice(kept, index), steps) + this.#textAt(found);
      kept = index + cluster.length;
    }
    return made + this.#charactersOf(text.slice(kept), steps);
  }

  #charactersOf(text: string, steps: Steps): string {
    let made = '';
    let kept = 0;
    for (let at = 0; at < text.length;) {
      const character = text.codePointAt(at) ?? 0;
      const end = at + (character > 0xffff ? 2 : 1);
      const content = this.#characterOf(character, text, at, end, steps);
      if (content !== undefined) {
        made += text.slice(kept, at) + content;
        kept = end;
      }
      at = end;
    }
    return kept === 0 ? text : made + text.slice(kept);
  }

  #characterOf(character: number, text: string, at: number, end: number, steps: Steps): string | undefined {
    const known = this.#characters.get(character);
    if (known !== undefined || this.#characters.has(character)) return known;
    const found = this.#find(text, at, end, false, steps);
    const content = found < 0 ? undefined : this.#textAt(found);
    if (this.#characters.size < REMEMBERED) this.#characters.set(character, content);
    return content;
  }

  /**
   * The shortest or the longest key that the text begins with at `start`.
   * @returns where its text begins, -1 if there is none
   */
  #find(text: string, start: number, end: number, longest: boolean, steps: Steps): number {
    const trie = this.#trie;
    let node = offsetOf(trie[0] ?? 0);
    let found = -1;
    for (let at = start; at < end;) {
      const character = text.codePointAt(at) ?? 0;
      at += character > 0xffff ? 2 : 1;
      steps.take(1);
      const bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
      for (let byte = 0; byte < bytes; byte++) {
        const label = byteOf(character, bytes, byte);
        node ^= label;
        const unit = trie[node];
        if (label === 0 || unit === undefined || labelOf(unit) !== label) return found;
        node ^= offsetOf(unit);
        if ((unit & LEAF) === 0 || byte + 1 < bytes) continue;
        const value = (trie[node] ?? 0) & 0x7fffffff;
        if (value >= this.#texts.length) continue;
        found = value;
        this.#matched = at - start;
        if (!longest) return found;
      }
    }
    return found;
  }

  #textAt(start: number): string {
    return this.#utf8.decode(this.#texts.subarray(start, this.#endOf(start)));
  }

  #endOf(start: number): number {
    const end = this.#texts.indexOf(0, start);
    return end < 0 ? this.#texts.length : end;
  }
}

const LEAF = 1 << 8;

/** A unit of the trie: a label in its last byte, whether a key ends there, and where its children are. */
function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & (1 << 9)) >>> 6);
}

function labelOf(unit: number): number {
  return (unit & 0x800000ff) >>> 0;
}

/** A byte of a character's UTF-8, of so many bytes. */
function byteOf(character: number, bytes: number, at: number): number {
  if (bytes === 1) return character;
  const bits = (character >>> (6 * (bytes - 1 - at))) & 0x3f;
  return at > 0 ? 0x80 | bits : bytes === 2 ? 0xc0 | bits : bytes === 3 ? 0xe0 | (bits & 0xf) : 0xf0 | (bits & 0x7);
}

/** The first place from `from` on where a cluster begins, so that a text may be cut there. */
function clusterEnd(text: string, from: number): number {
  for (let end = from; end < text.length; end++)
    if (FIRST.test(text.charAt(end)) && !JOINING.test(text.charAt(end - 1))) return end;
  return text.length;
}
