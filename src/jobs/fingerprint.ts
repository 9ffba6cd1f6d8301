import { createHash } from 'node:crypto';
import { open, readdir } from 'node:fs/promises';
import { createReadStream } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { MODEL_SETTINGS } from '../model/modelFiles.js';
import type { RowInput } from '../Row.js';
import { fileFailure } from './fileErrors.js';
import { isBlank, readLines } from './readLines.js';

/** Files up to this size are hashed whole. */
const WHOLE_BYTES = 64 * 2 ** 20;
const SAMPLE_BYTES = 2 ** 20;
const SAMPLES = 32;

export interface FileFingerprint {
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** An input: the bytes of a regular file, or of a stream its first row (null: there was none), as the rest is not there yet. */
export type InputFingerprint =
  | { readonly kind: 'file'; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'stream'; readonly firstRow: string | null };

/**
 * Which model it is: name, size and hash of each file, wherever it lies. A file of more than 64 MiB is judged by its size and
 * 32 MiB of it: its head, its end, and blocks spread evenly between. Of a folder's model, the settings, tokenizer and
 * template beside the weights count too.
 * @param files the files of the weights
 * @throws JobFileError when one cannot be read
 */
export async function fingerprintModel(files: readonly string[]): Promise<FileFingerprint[]> {
  const prints: FileFingerprint[] = [];
  for (const file of await withSettings(files)) prints.push(await fingerprintFile(file));
  return prints;
}

/** The files of a model's weights and, of a folder's model, the settings beside them, sorted. @throws JobFileError when a folder cannot be read */
export async function withSettings(files: readonly string[]): Promise<string[]> {
  const all = new Set(files);
  for (const folder of new Set(files.filter((file) => file.endsWith('.safetensors')).map(dirname))) {
    for (const name of await listFolder(folder)) {
      if (MODEL_SETTINGS.has(name)) all.add(join(folder, name));
    }
  }
  return [...all].sort();
}

async function fingerprintFile(path: string): Promise<FileFingerprint> {
  try {
    const handle = await open(path, 'r');
    try {
      const { size } = await handle.stat();
      const hash = createHash('sha256');
      const buffer = Buffer.alloc(SAMPLE_BYTES);
      const whole = size <= WHOLE_BYTES;
      const count = whole ? Math.ceil(size / SAMPLE_BYTES) : SAMPLES;
      for (let block = 0; block < count; block += 1) {
        const position = whole ? block * SAMPLE_BYTES : Math.floor((block / (count - 1)) * (size - SAMPLE_BYTES));
        const { bytesRead } = await handle.read(buffer, 0, SAMPLE_BYTES, position);
        hash.update(buffer.subarray(0, bytesRead));
      }
      return { name: basename(path), bytes: size, sha256: hash.digest('hex') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileFailure(path, 'read', error);
  }
}

/** Reads a whole input file once: its hash, and how many rows it has (lines that are not blank), for the progress bar. */
export async function fingerprintInput(path: string): Promise<{ input: InputFingerprint; rows: number }> {
  const hash = createHash('sha256');
  let bytes = 0;
  let rows = 0;
  async function* hashed(): AsyncGenerator<Buffer, void, undefined> {
    for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  try {
    for await (const line of readLines(hashed(), 4096)) {
      if (line.bytes === undefined || !isBlank(line.bytes)) rows += 1;
    }
  } catch (error) {
    throw fileFailure(path, 'read', error);
  }
  return { input: { kind: 'file', bytes, sha256: hash.digest('hex') }, rows };
}

export function fingerprintFirstRow(row: RowInput | undefined): InputFingerprint {
  return { kind: 'stream', firstRow: row === undefined ? null : createHash('sha256').update(stringify(row)).digest('hex') };
}

/** A row may hold what JSON cannot write (deep nesting, a bigint); then its id has to do, or that it has none. */
function stringify({ duplicate: _duplicate, carry, ...own }: RowInput): string {
  for (const part of [{ ...own, carry }, own]) {
    try {
      return JSON.stringify(part);
    } catch {
      // The next part says less, and is still the same for the same row.
    }
  }
  return JSON.stringify({ id: own.id });
}

async function listFolder(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    throw fileFailure(folder, 'read', error);
  }
}
