import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inTurns } from '../../collections/inTurns.js';
import type { Work } from '../../collections/drained.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { makeFolder } from '../../files/makeFolder.js';
import { removeLeftovers, temporaryPath } from '../../files/temporaryFiles.js';
import { userCacheFolder } from '../../files/userFolders.js';
import { packageRoot } from '../../packageRoot.js';
import { formatBytes } from '../../units.js';
import { DUCKDB_BYTES, limitOf, OF_COUNTED } from './duckDbLimit.js';
import type { Answer, Request } from './duckDbMessages.js';
import { MEMORY, MORE_MEMORY } from './duckDbRows.js';
import { loaderFlags } from './loaderFlags.js';
import type { OpenQuery, QueryRow } from './OpenQuery.js';
import { withoutSecrets } from './sqlSecrets.js';
import { ValueBuilder } from './valueParts.js';

/** The part of the memory that is free which it may have where nobody says how much: an engine leaves as much. */
const FREE_SHARE = 1 / 10;
const PROGRAM = 'dist/jobs/input/duckDbProcess.js';
/** Threads, stacks and young values take memory that rows then have. */
const NODE_FLAGS = ['--expose-gc', '--max-semi-space-size=4', '--v8-pool-size=1'];
/** The heap's part of what it may have. */
const HEAP_SHARE = 3 / 8;
const SHELL = '/bin/sh';
/** Where the limit is lower already it stays so. */
const LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"';
/** The end of what the process says before it dies, which is looked at for why it did. */
const LAST_WORDS = 2 ** 14;
/** Ends of a process that gets no memory: V8 and C++ give up so. */
const GIVEN_UP: ReadonlySet<string> = new Set(['SIGABRT', 'SIGTRAP', 'SIGILL']);
/** The error with which Node ends a program, among what it says, and of it so many characters. */
const ERROR = /^(?:\w+ )?\w*Error\b.*$/m;
const ERROR_LENGTH = 300;
/** Parts of a long row that are put together between two moments at which others may have their turn. */
const PARTS = 2 ** 11;

export interface DuckDbOptions {
  /** The folder for what has no room in memory. Default: the user's cache folder. */
  readonly disk?: string | undefined;
  /** Bytes that its process may have. Default: a tenth of what is free, and at least `DUCKDB_BYTES`. */
  readonly memory?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A query of DuckDB, in a process of its own: a row's values may take any memory before they can be counted, and what
 * DuckDB does in native code may end its process.
 * @param database a file, or `MEMORY`
 * @throws UsageError, JobFileError, InterruptedError
 */
export async function duckDbQuery(
  sql: string,
  database: string,
  {
    disk = userCacheFolder(),
    memory = Math.max(DUCKDB_BYTES, FREE_SHARE * process.availableMemory()),
    signal,
  }: DuckDbOptions = {},
): Promise<OpenQuery> {
  const name = database === MEMORY ? 'SQL' : withoutSecrets(database);
  const temporary = temporaryPath(join(disk, 'duckdb'));
  try {
    makeFolder(disk);
    removeLeftovers(join(disk, 'duckdb'));
  } catch {
    // Few queries need it; DuckDB says why it cannot be used.
  }
  let running: DuckDbRun | undefined;
  try {
    const run = (running = new DuckDbRun(name, limitOf(sql, memory), temporary, signal));
    const { header } = await run.ask({ sql, database, temporary }, 'header');
    return { name, header, chunks: () => run.chunks(header), [Symbol.asyncDispose]: () => run.end() };
  } catch (error) {
    await running?.end();
    throw error;
  }
}

type AnswerOf<Kind extends Answer['kind']> = Extract<Answer, { readonly kind: Kind }>;

/** The process of one query: it is asked one thing at a time. */
class DuckDbRun {
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  #waiting: { readonly resolve: (answer: Answer) => void; readonly reject: (error: unknown) => void } | undefined;
  /** Why nothing can be asked any more. */
  #over: Error | undefined;
  #lastWords = '';
  #rows = 0;

  constructor(
    private readonly name: string,
    private readonly limitBytes: number | undefined,
    private readonly temporary: string,
    private readonly signal: AbortSignal | undefined,
  ) {
    const heap =
      limitBytes === undefined ? [] : [`--max-old-space-size=${Math.floor((HEAP_SHARE * limitBytes) / 2 ** 20)}`];
    const flags = [...loaderFlags(process.env, process.execArgv), ...NODE_FLAGS, ...heap];
    const program = [process.execPath, ...flags, fileURLToPath(new URL(PROGRAM, packageRoot().folder))];
    const [command = '', ...args] =
      limitBytes !== undefined && existsSync(SHELL)
        ? [SHELL, '-c', LIMITED, String(Math.floor(limitBytes / 1024)), ...program]
        : program;
    // Other flags of the program that is running are for itself.
    const { NODE_OPTIONS: _, ...environment } = process.env;
    const child = spawn(command, args, {
      // `/dev/stdin` may be a file of the query's.
      stdio: ['inherit', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
      env: { ...environment, UV_THREADPOOL_SIZE: '2' },
    });
    this.#child = child;
    child.stderr?.setEncoding('utf8').on('data', (words: string) => {
      this.#lastWords = (this.#lastWords + words).slice(-LAST_WORDS);
    });
    child.on('message', (answer: Answer) => {
      this.#waiting?.resolve(answer);
    });
    this.#closed = new Promise((resolve) => {
      child.on('error', (error) => {
        this.#fail(
          new JobFileError(name, `the process of DuckDB cannot be started: ${error.message}`, { cause: error }),
        );
        if (child.pid === undefined) resolve();
      });
      child.on('close', (code, killed) => {
        this.#fail(this.#deathOf(code, killed));
        resolve();
      });
    });
    signal?.addEventListener('abort', this.#onAbort);
    if (signal?.aborted === true) this.#onAbort();
    // Nobody waits for it who asks nothing.
    this.#hold(false);
  }

  /** @throws JobFileError, UsageError, InterruptedError */
  async ask<Kind extends Answer['kind']>(request: Request, ...kinds: readonly Kind[]): Promise<AnswerOf<Kind>> {
    if (this.#over) throw this.#over;
    this.#hold(true);
    try {
      const answer = await new Promise<Answer>((resolve, reject) => {
        this.#waiting = { resolve, reject };
        // Where it has died, that is told when all that it said has come.
        // One that could not be started has no channel.
        this.#child.send?.(request, () => undefined);
      });
      if (answer.kind === 'error')
        throw answer.file === undefined ? new UsageError(answer.words) : new JobFileError(answer.file, answer.words);
      if (!kinds.some((kind) => kind === answer.kind))
        throw new JobFileError(
          this.name,
          `the process of DuckDB answered with ${answer.kind}, expected ${kinds.join(' or ')}`,
        );
      return answer as AnswerOf<Kind>;
    } finally {
      this.#waiting = undefined;
      this.#hold(false);
    }
  }

  async *chunks(header: readonly string[]): AsyncGenerator<Iterable<QueryRow>, void, undefined> {
    let next = this.#next();
    for (let answer = await next; answer.kind === 'rows'; answer = await next) {
      const { rows, then } = answer;
      this.#rows += rows.length + Number(then !== undefined);
      // While these are gone through it makes the next ones.
      if (then === undefined) next = this.#next();
      yield rows.map((row) => ({ values: (columns) => taken(row, columns, header.length) }));
      if (then === undefined) continue;
      const row = then === 'long' ? new LongRow(this, header.length) : { values: this.#tooLarge(header.length) };
      yield [row];
      if (row instanceof LongRow) await inTurns(row.all());
      next = this.#next();
    }
    // It closes what its statements wrote, and ends. Where it cannot, the next one that opens a file reads its log.
    this.#hold(true);
    await this.#closed;
    this.#hold(false);
  }

  /** Ends it, whatever it does. Idempotent. */
  async end(): Promise<void> {
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.#fail(new InterruptedError());
    this.#hold(true);
    this.#child.kill('SIGKILL');
    await this.#closed;
    this.#hold(false);
    try {
      rmSync(this.temporary, { recursive: true, force: true });
    } catch {
      // The next one removes what is left.
    }
  }

  /** Asked ahead, so that its error waits for whoever takes it. */
  #next(): Promise<AnswerOf<'rows' | 'end'>> {
    const answer = this.ask('next', 'rows', 'end');
    answer.catch(() => undefined);
    return answer;
  }

  /** A row of which only those columns can be had that take little. */
  #tooLarge(width: number): QueryRow['values'] {
    const asked = (columns: readonly number[], most: number): Promise<AnswerOf<'values'>> =>
      this.ask({ columns, most }, 'values');
    return function* (columns, most) {
      return columns.length === width ? undefined : (yield* waited(asked(columns, most))).values;
    };
  }

  readonly #onAbort = (): void => {
    this.#fail(new InterruptedError(this.signal?.reason));
    this.#child.kill('SIGKILL');
  };

  #fail(error: Error): void {
    this.#over ??= error;
    this.#waiting?.reject(this.#over);
  }

  #deathOf(code: number | null, killed: NodeJS.Signals | null): JobFileError {
    const why = killed === null ? ERROR.exec(this.#lastWords)?.[0].slice(0, ERROR_LENGTH) : undefined;
    const how = killed ?? (why === undefined ? `exit code ${code}` : `exit code ${code}: ${withoutSecrets(why)}`);
    const where = this.#rows === 0 ? '' : ` after row ${this.#rows}`;
    const { limitBytes } = this;
    const outOfMemory =
      /out of memory|bad_alloc|allocation failed/i.test(this.#lastWords) ||
      (limitBytes !== undefined && killed !== null && GIVEN_UP.has(killed));
    const words = outOfMemory
      ? `the process of DuckDB gave up${where} (${how}): the values of the rows at hand take more than the ${limitBytes === undefined ? 'memory there is' : `${formatBytes(limitBytes)} that it may have`}, expected less; ${MORE_MEMORY}, and its process ${OF_COUNTED} times that`
      : `the process of DuckDB ended${where} (${how})`;
    return new JobFileError(this.name, `${words}; rows that were finished are intact`);
  }

  /** This process waits for it, or does not. */
  #hold(waits: boolean): void {
    const child = this.#child;
    for (const held of [child, child.channel, child.stderr as Socket | null])
      if (waits) held?.ref();
      else held?.unref();
  }
}

/** Waits for an answer within work. @throws what the answer throws */
function* waited<T>(answer: Promise<T>): Work<T> {
  let came: { readonly value: T } | { readonly error: unknown } | undefined;
  yield answer.then(
    (value) => {
      came = { value };
    },
    (error: unknown) => {
      came = { error };
    },
  );
  if (came === undefined) throw new Error('found no answer, expected one that was waited for');
  if ('error' in came) throw came.error;
  return came.value;
}

function* taken(row: readonly unknown[], columns: readonly number[], width: number): Work<readonly unknown[]> {
  return columns.length === width ? row : columns.map((column) => row[column]);
}

/** A row that comes in parts, once. */
class LongRow implements QueryRow {
  #row: readonly unknown[] | undefined;

  constructor(
    private readonly run: DuckDbRun,
    private readonly width: number,
  ) {}

  *values(columns: readonly number[]): Work<readonly unknown[]> {
    return yield* taken(yield* this.all(), columns, this.width);
  }

  *all(): Work<readonly unknown[]> {
    if (this.#row) return this.#row;
    const builder = new ValueBuilder();
    for (let isLast = false; !isLast;) {
      const { parts, last } = yield* waited(this.run.ask('next', 'parts'));
      isLast = last;
      for (const [at, part] of parts.entries()) {
        builder.add(part);
        if (at % PARTS === PARTS - 1) yield;
      }
    }
    return (this.#row = builder.value as readonly unknown[]);
  }
}
