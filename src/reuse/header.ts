import * as zlib from 'node:zlib';
import { found } from '../arguments/found.js';

/** With it begins what is ours, of whatever version; nobody writes it by chance. */
const MAGIC = Buffer.from('Spillway answers', 'latin1');
const VERSION = 1;

/**
 * Magic (16 bytes), version (32 bits, little-endian), CRC-32 of both. So begins every version, that each knows the
 * others'.
 */
export const HEADER_BYTES = 24;
export const HEADER = headerOf(VERSION);

/** The kind of a file, by its beginning. */
export type HeaderKind =
  | { readonly kind: 'ours' }
  | { readonly kind: 'empty' }
  /** It was ours, and nothing in it can be used. */
  | { readonly kind: 'unusable'; readonly found: string; readonly expected: string }
  /** It is that of an earlier or a later Spillway, which may want it again: not to be touched. */
  | { readonly kind: 'otherVersion'; readonly found: string; readonly expected: string }
  /** Somebody else's: not to be touched. */
  | { readonly kind: 'foreign'; readonly found: string };

/** @param start the file's first 24 bytes, or all that there is */
export function headerKind(start: Buffer): HeaderKind {
  if (start.length === 0) return { kind: 'empty' };
  if (!start.subarray(0, MAGIC.length).equals(MAGIC))
    return { kind: 'foreign', found: `a file that begins with ${found(start.toString('latin1'))}` };
  const expected = `version ${VERSION}`;
  if (start.length < HEADER_BYTES) return { kind: 'unusable', found: 'a part of a header', expected };
  const version = start.readUInt32LE(MAGIC.length);
  if (!start.equals(headerOf(version))) return { kind: 'unusable', found: 'a damaged header', expected };
  return version === VERSION ? { kind: 'ours' } : { kind: 'otherVersion', found: `version ${version}`, expected };
}

/** @internal For tests, which make files of other versions. */
export function headerOf(version: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  MAGIC.copy(header);
  header.writeUInt32LE(version, MAGIC.length);
  header.writeUInt32LE(zlib.crc32(header.subarray(0, MAGIC.length + 4)), MAGIC.length + 4);
  return header;
}
