import type { Work } from '../../collections/drained.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { wordsOf } from '../work/QueueAddress.js';
import { withoutSecrets } from './sqlSecrets.js';

/** A row as the database has it, of which values are made. */
export interface QueryRow {
  /**
   * The values of these columns, in their order; undefined where they take more bytes of memory than `most`, which is
   * found out while they are made. Stops on the way through many. @throws JobFileError
   */
  values(columns: readonly number[], most: number): Work<readonly unknown[] | undefined>;
}

/** A query whose rows are read as they are wanted. */
export interface OpenQuery extends AsyncDisposable {
  /** The database's name in errors. */
  readonly name: string;
  /** The names of the columns, no two alike. */
  readonly header: readonly string[];
  /** Once. @throws JobFileError where it fails, or breaks off */
  chunks(): AsyncGenerator<Iterable<QueryRow>, void, undefined>;
}

/** @throws JobFileError, which does not repeat what a statement may hold of secrets */
export async function orFailure<T>(name: string, said: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw failureOf(name, said, error);
  }
}

/** The error that `orFailure` throws for another one. */
export function failureOf(name: string, said: string, error: unknown): SpillwayError {
  if (error instanceof SpillwayError) return error;
  const words = withoutSecrets(wordsOf(error, []), said);
  // Not the database's own as the cause: whoever logs an error logs that, too.
  return new JobFileError(name, `the query failed: ${words}; rows that were finished are intact`, {
    cause: new Error(words),
  });
}
