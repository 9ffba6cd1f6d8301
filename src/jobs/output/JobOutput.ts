import { open, rm, stat, truncate } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { acquireFileLock, type FileLock, releaseLocks } from '../../files/fileLock.js';
import { BEGIN_ANEW } from '../../files/fileErrors.js';
import { readRecord, writeRecord, type JobRecord } from '../record/jobRecord.js';
import { hasJournal, journalPath, lockPath, recordPath, rewritePath } from './sidecarFiles.js';
import { realPathOf } from '../../files/realPath.js';
import { modeOf, removeOrEmpty, syncFolder } from '../../files/atomicFile.js';
import { JournalWriter } from './JournalWriter.js';
import { dropFailedRows } from './rewriteJournal.js';
import { type Journal, journalHeader, runOfJournal, type ScannedJournal, scanJournal } from './Journal.js';

/** Which files a job writes. */
export interface OutputPaths {
  /** As it was given. */
  readonly output: string;
  readonly errors?: string;
  /** True where the output is written as a whole at the end, from a journal beside it, as far as the options say. */
  readonly published: boolean;
  /** The form that the output is to have, in words: why an output that is its own journal cannot be gone on with. */
  readonly form: string;
}

/** An output that can be resumed, and what it is resumed from. */
export interface OutputFile {
  readonly files: JobOutput;
  /**
   * The fingerprint of this run; a stream's lacks its first row, and what was not known before there was an engine is
   * missing of that.
   */
  readonly record: JobRecord;
  readonly earlier: ScannedJournal | undefined;
  /** True where the input has got more rows since, after those that there were. */
  readonly longer: boolean;
}

/** The files of a job whose output can be resumed: locked, looked at, not touched yet. */
export class JobOutput {
  private constructor(
    /** The path all names of the output lead to. */
    readonly path: string,
    readonly errors: string | undefined,
    /** The record of what began the output; undefined where there is nothing to go on with. */
    readonly before: JobRecord | undefined,
    /** Where results go: decided by the run that began the output. */
    readonly journal: JobRecord['journal'],
    private readonly locks: readonly FileLock[],
  ) {}

  /** @throws UsageError when another process is at work on it; JobFileError; InterruptedError */
  static async lock(
    paths: OutputPaths,
    signal: AbortSignal | undefined,
  ): Promise<{ release(): void; open(resume: boolean): Promise<JobOutput> }> {
    const [path, errors] = [
      await realPathOf(paths.output),
      paths.errors === undefined ? undefined : await realPathOf(paths.errors),
    ];
    const locks: FileLock[] = [];
    const release = (): void => {
      releaseLocks(locks.splice(0));
    };
    try {
      locks.push(await acquireFileLock(lockPath(path), paths.output, { signal }));
      if (errors !== undefined && paths.errors !== undefined)
        locks.push(await acquireFileLock(lockPath(errors), paths.errors, { signal }));
    } catch (error) {
      release();
      throw error;
    }
    return {
      release,
      open: async (resume) => {
        const before = resume ? readRecord(path) : undefined;
        const journal = before?.journal ?? (paths.published ? 'apart' : 'output');
        if (journal === 'output' && paths.published) {
          throw new UsageError(
            `${paths.output}: cannot be resumed ${paths.form}, as the run that began it writes all results into it, as lines of JSON; ` +
              `give what was given then, or another output; ${BEGIN_ANEW}`,
          );
        }
        return new JobOutput(path, errors, before, journal, locks);
      },
    };
  }

  get published(): boolean {
    return this.journal === 'apart';
  }

  /** Gives a record's part about files. */
  get recorded(): Pick<JobRecord, 'journal' | 'errors'> {
    return {
      journal: this.journal,
      ...(this.errors !== undefined && { errors: relative(dirname(this.path), this.errors) }),
    };
  }

  /** Where results of a run are appended. */
  journalOf({ run }: JobRecord): Journal {
    return this.published ? { path: journalPath(this.path), run } : { path: this.path, run: undefined };
  }

  /**
   * Reads what earlier runs left. Undefined if they got nowhere.
   * @throws UsageError for results without a record, a record without results, and results of another run;
   * InterruptedError once the signal fires
   */
  async scan(retryErrors: boolean, signal?: AbortSignal): Promise<ScannedJournal | undefined> {
    if (this.before === undefined) {
      if (!(await this.#holdsResults())) return undefined;
      throw new UsageError(
        `${this.path}: cannot be resumed, as there is no ${recordPath(this.path)} that says what began it; \`overwrite\` begins anew`,
      );
    }
    const journal = this.journalOf(this.before);
    if ((await modeOf(journal.path)) === undefined) {
      throw new UsageError(
        `${this.path}: cannot be resumed, as ${recordPath(this.path)} is there and ${journal.path} with its results is not; put it back, or ${BEGIN_ANEW}`,
      );
    }
    if (journal.run !== undefined && runOfJournal(journal.path) !== journal.run) {
      throw new UsageError(
        `${this.path}: cannot be resumed, as ${journal.path} holds the results of another run than ${recordPath(this.path)} tells of; ${BEGIN_ANEW}`,
      );
    }
    return scanJournal(journal, retryErrors, signal);
  }

  /**
   * Tells whether there are results that no record tells of. A run that was killed as it began leaves a journal without
   * any.
   */
  async #holdsResults(): Promise<boolean> {
    const holds = async (journal: Journal): Promise<boolean> => (await scanJournal(journal, false)).done.size > 0;
    const size = await stat(this.path).then(
      (stats) => stats.size,
      () => 0,
    );
    if (size > 0 && (this.published || (await holds({ path: this.path, run: undefined })))) return true;
    return hasJournal(this.path) && holds({ path: journalPath(this.path), run: runOfJournal(journalPath(this.path)) });
  }

  /**
   * Makes the journal ready for results: the first change on disk.
   * @param scanned what is gone on with
   * @throws UsageError, JobFileError; the system's errors
   */
  async begin(record: JobRecord, scanned: ScannedJournal | undefined, retryErrors: boolean): Promise<JournalWriter> {
    const journal = this.journalOf(record);
    await rm(rewritePath(journal.path), { force: true });
    if (scanned === undefined) return this.#beginAnew(journal, record);
    if (JSON.stringify(record) !== JSON.stringify(this.before)) await writeRecord(this.path, record);
    let { bytes } = scanned;
    if (retryErrors && scanned.failed > 0) bytes = await dropFailedRows(journal);
    else await truncate(journal.path, bytes);
    return new JournalWriter(await open(journal.path, 'r+'), journal.path, bytes);
  }

  async #beginAnew(journal: Journal, record: JobRecord): Promise<JournalWriter> {
    // What is private stays so, in whatever form.
    const mode = (await modeOf(this.path)) ?? (await modeOf(journal.path));
    const header = journal.run === undefined ? '' : journalHeader(journal.run);
    // In this order, so that no crash leaves the record of one run beside the rows of another.
    const handle = await open(journal.path, 'w', mode);
    try {
      if (mode !== undefined) await handle.chmod(mode);
      await handle.appendFile(header);
      await handle.sync();
      await rm(recordPath(this.path), { force: true });
      for (const old of this.published
        ? [this.path, rewritePath(this.path)]
        : hasJournal(this.path)
          ? [journalPath(this.path), rewritePath(journalPath(this.path))]
          : []) {
        await removeOrEmpty(old);
      }
      await writeRecord(this.path, record, mode);
      await syncFolder(this.path);
    } catch (error) {
      await handle.close();
      throw error;
    }
    return new JournalWriter(handle, journal.path, header.length);
  }

  /**
   * Lets others at the files. Idempotent.
   * @param whole whether all rows are written
   * @throws JobFileError where a lock cannot be removed
   */
  release(whole: boolean): void {
    try {
      releaseLocks(this.locks);
    } catch (error) {
      if (!(error instanceof JobFileError)) throw error;
      const written = whole ? 'all rows are written' : 'rows that were finished are written';
      throw new JobFileError(
        this.path,
        `${written}, but its lock is left behind: ${error.message}; remove it once no job runs there, or leave it: the next run does`,
        { cause: error },
      );
    }
  }
}

/**
 * Tells whether a file of rows that failed is this job's to replace: one that is not there, is empty, or is named by
 * the record of the output.
 */
export async function isErrorsOf(output: string, errors: string): Promise<boolean> {
  const place = await realPathOf(output);
  const named = recordedErrors(place);
  return named !== undefined && resolve(dirname(place), named) === (await realPathOf(errors));
}

function recordedErrors(place: string): string | undefined {
  try {
    return readRecord(place)?.errors;
  } catch {
    // Whoever goes on with it hears of that; whoever begins anew does not need it.
    return undefined;
  }
}
