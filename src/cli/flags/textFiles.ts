import { bytesOf, fileFailure, InterruptedError, JobFileError, UsageError } from '../library.js';

/** A template, or a schema, is hardly longer than what a model can read. */
const MOST_BYTES = 16 * 2 ** 20;

/**
 * The text of a flag: what was given, or what the file holds that it names. @throws JobFileError for a file that cannot
 * be read
 */
export async function textOf(
  given: string | undefined,
  file: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (file === undefined) return given;
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of bytesOf(file, signal)) {
      length += piece.length;
      if (length > MOST_BYTES)
        throw new JobFileError(file, `found more than ${MOST_BYTES} bytes, expected at most so many`);
      pieces.push(piece);
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces));
  } catch (error) {
    if (error instanceof InterruptedError) throw error;
    throw error instanceof TypeError
      ? new JobFileError(file, 'found bytes that are no UTF-8, expected UTF-8 text', { cause: error })
      : fileFailure(file, 'read', error);
  }
}

/** @throws UsageError for what is no JSON */
export function jsonOf(flag: string, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${flag}: found no JSON (${error instanceof Error ? error.message : String(error)})`, {
      cause: error,
    });
  }
}
