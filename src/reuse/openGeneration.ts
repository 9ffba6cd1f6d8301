import { constants, type BigIntStats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { fileErrorCode } from '../files/fileErrors.js';
import { ifThere } from '../files/ifThere.js';
import { specialKind } from '../files/specialFiles.js';
import { Generation, type OpenFile } from './Generation.js';
import { HEADER, HEADER_BYTES, headerKind, type HeaderKind } from './header.js';

/** How a file is opened; `open` of node:fs/promises is one. */
export type FileOpener = (path: string, flags: number, mode?: number) => Promise<OpenFile>;

/** The kind of file at a path. Of `empty` and `ours` the file is open. */
export type Opened =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ours' | 'empty'; readonly generation: Generation }
  | Exclude<HeaderKind, { readonly kind: 'ours' | 'empty' }>;

/** Opening must wait for nobody, nor may a terminal become ours. */
const APPENDING = constants.O_RDWR | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY;
const READING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
/** Who may not write may still read. */
const NO_WRITING = ['EACCES', 'EPERM', 'EROFS', 'ETXTBSY'];

/**
 * Opens a file of a store, and changes nothing.
 * @throws the system's errors
 */
export async function openGeneration(path: string, opener: FileOpener): Promise<Opened> {
  const stats = await statOf(path);
  if (stats === undefined) return { kind: 'absent' };
  // Before it is opened, too: opening a device may do something.
  const kind = specialKind(stats);
  if (kind !== undefined) return { kind: 'foreign', found: kind };
  const opened = await ifThere(openFile(path, opener));
  if (opened === undefined) return { kind: 'absent' };
  const { file, writable } = opened;
  let kept = false;
  try {
    const identity = await file.stat({ bigint: true });
    const found = specialKind(identity);
    if (found !== undefined) return { kind: 'foreign', found };
    const start = Buffer.alloc(HEADER_BYTES);
    const { bytesRead } = await file.read(start, 0, HEADER_BYTES, 0);
    const header = headerKind(start.subarray(0, bytesRead));
    if (header.kind !== 'ours' && header.kind !== 'empty') return header;
    kept = true;
    return { kind: header.kind, generation: new Generation(file, identity, writable) };
  } finally {
    if (!kept) await file.close();
  }
}

/**
 * Makes a file with nothing in it but the header. Whoever calls holds the store's lock.
 * @throws the system's errors, EEXIST if there is one
 */
export async function makeGeneration(path: string, opener: FileOpener): Promise<Generation> {
  const file = await opener(path, APPENDING | constants.O_CREAT | constants.O_EXCL, 0o666);
  const generation = new Generation(file, await file.stat({ bigint: true }), true);
  await begin(generation);
  return generation;
}

/**
 * Writes the header into an empty file; closes it if that fails. Whoever calls holds the store's lock. @throws the
 * system's errors
 */
export async function begin(generation: Generation): Promise<void> {
  try {
    await generation.append(HEADER);
  } catch (error) {
    await generation.close();
    throw error;
  }
}

/** Undefined where there is nothing. @throws the system's errors */
export function statOf(path: string): Promise<BigIntStats | undefined> {
  return ifThere(stat(path, { bigint: true }));
}

async function openFile(path: string, opener: FileOpener): Promise<{ file: OpenFile; writable: boolean }> {
  try {
    return { file: await opener(path, APPENDING), writable: true };
  } catch (error) {
    if (!NO_WRITING.includes(fileErrorCode(error) ?? '')) throw error;
    return { file: await opener(path, READING), writable: false };
  }
}
