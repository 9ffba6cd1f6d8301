import {
  bytesOf,
  describeFileError,
  JobFileError,
  losesChoices,
  LOST_CHOICES,
  readWithDigits,
  SpillwayError,
  UsageError,
} from '../library.js';

/** A template, or a schema, is hardly longer than what a model can read. */
const MOST_BYTES = 16 * 2 ** 20;

/**
 * The text of a flag: what was given, or what the file holds that it names.
 * @param takes the flag, and what it takes
 * @throws JobFileError for a file that cannot be read
 */
export async function textOf(
  takes: readonly [flag: string, what: string],
  given: string | undefined,
  file: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (file === undefined) return given;
  const bytes = await shortFile(takes, file, MOST_BYTES, 'at most so many', signal);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new JobFileError(file, `found bytes that are no UTF-8, expected UTF-8 text; ${takes.join(' takes ')}`, {
      cause: error,
    });
  }
}

/**
 * A file that a flag names, as a whole.
 * @param takes the flag, and what it takes
 * @param expected in words, of one that has more bytes
 * @throws JobFileError, InterruptedError
 */
export async function shortFile(
  takes: readonly [flag: string, what: string],
  file: string,
  mostBytes: number,
  expected: string,
  signal: AbortSignal,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of bytesOf(file, signal)) {
      length += piece.length;
      if (length > mostBytes)
        throw new JobFileError(
          file,
          `found more than ${mostBytes} bytes, expected ${expected}; ${takes.join(' takes ')}`,
        );
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    throw new JobFileError(file, `cannot be read: ${describeFileError(error)}; ${takes.join(' takes ')}`, {
      cause: error,
    });
  }
}

/** @throws UsageError for what is no JSON */
export function jsonOf(flag: string, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    const [value, written] = readWithDigits(text);
    if (!losesChoices(value, written)) return value;
  } catch (error) {
    throw new UsageError(`${flag}: found no JSON (${error instanceof Error ? error.message : String(error)})`, {
      cause: error,
    });
  }
  throw new UsageError(`${flag}: ${LOST_CHOICES}`);
}
