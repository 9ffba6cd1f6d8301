import { createReadStream, existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { DatabaseError } from '../../errors/DatabaseError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { FlatKind } from '../formats/Table.js';
import { resultOfLine, type ResultLine } from '../formats/formatResult.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { type Journal, type JournalLine, journalHeader, journalLines } from '../output/Journal.js';
import { EXCERPT } from '../input/sqlSecrets.js';
import { DoneRows } from '../record/DoneRows.js';
import { rowsOfResult } from '../../rows/rowsOfResult.js';
import { persistently } from '../work/persistently.js';
import { wordsOf } from '../work/QueueAddress.js';
import { type DatabasePlace, DATABASE_WAIT, type DatabaseOutput } from './DatabaseOutput.js';
import { openTableDatabase } from './openTableDatabase.js';
import type { FoundTable, TableDatabase } from './TableDatabase.js';
import { cellsOf, mismatches, TableLayout } from './TableLayout.js';
import { quoted, quotedTable } from './TableName.js';
import { isVector } from '../formats/Table.js';

/** Rows of a transaction, unless they are large. */
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 * 2 ** 20;
/** Results that are fewer wait so long. */
const BATCH_MILLISECONDS = 1000;
/** Keys that are asked for at once. */
const PAGE_KEYS = 50_000;
/** How long a database is waited for that is away as a job begins. */
const REACH_SECONDS = 15;
/** How long one is waited for once the run was stopped. */
const PARTING_SECONDS = 5;
/** More rows that do not fit are no matter of single rows. */
const MOST_REFUSED = 10_000;
const WRITING = 'write rows';
const KINDS: readonly FlatKind[] = ['text', 'integer', 'number', 'boolean', 'moment'];

export interface FeedOptions {
  /** The run whose rows they are. */
  readonly job: string;
  readonly journal: Journal;
  readonly options: WriteOptions;
  /** True where rows that failed go elsewhere. */
  readonly withoutErrors: boolean;
  readonly signal: AbortSignal | undefined;
  /** A run that is begun anew, whose rows go. */
  readonly earlierRun: string | undefined;
}

/**
 * Brings what stands in a job's journal into a table, as it is written there: in transactions, each row in place of
 * what has its key. The journal alone says what is done, so that a process that is killed anywhere, and a database that
 * loses a transaction, leave nothing to be found out but which rows the table has.
 */
export class TableFeed {
  readonly #layout: TableLayout;
  /** Rows that the table had, without an error, as the run began. */
  readonly #there = new DoneRows();
  readonly #refused = new Map<string, string>();
  /** Types of the columns that the table has; undefined where there is none. */
  #types: Map<string, string> | undefined;
  /** True where the table is not this job's alone, and stays as it is. */
  #fixed = false;
  #position = 0;
  /** The journal's bytes as the run began. */
  #before = 0;
  #lines = 0;
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failure: unknown;
  /** Ends waiting for the database some time after the run was stopped. */
  readonly #parting = new AbortController();
  readonly #onStop = (): void => {
    setTimeout(() => this.#parting.abort(this.feed.signal?.reason), PARTING_SECONDS * 1000).unref();
  };

  private constructor(
    private readonly database: TableDatabase,
    private readonly feed: FeedOptions & { readonly output: DatabaseOutput; readonly place: DatabasePlace },
  ) {
    this.#layout = new TableLayout(feed.job, feed.options, database);
    feed.signal?.addEventListener('abort', this.#onStop, { once: true });
  }

  /**
   * Looks whether results can go there. Nothing is changed: a file that is not there is not made.
   * @throws DatabaseError; UsageError, also for names of columns that stand twice
   */
  static async open(output: DatabaseOutput, place: DatabasePlace, options: FeedOptions): Promise<TableFeed> {
    const feed = new TableFeed(await openTableDatabase(place), { ...options, output, place });
    try {
      if (place.kind === 'postgres' || existsSync(place.address)) await feed.#check();
      return feed;
    } catch (error) {
      await feed.close();
      throw error;
    }
  }

  /** Results of rows that were refused, by what they say instead. */
  get refused(): number {
    return this.#refused.size;
  }

  async #check(): Promise<void> {
    const table = await this.#do(
      'look at the table',
      () => this.database.describe(this.feed.place.table),
      REACH_SECONDS,
    );
    this.#checkFound(table);
    await this.database.idle();
  }

  /** Takes away what a run left that is begun anew. @throws DatabaseError */
  async forget(): Promise<void> {
    const { earlierRun: job, place } = this.feed;
    if (job === undefined) return;
    const { table } = place;
    await this.#do('look at the table', async () => {
      if ((await this.database.describe(table)) === undefined) return;
      const key = quoted(this.#layout.keys[0] ?? '');
      await this.database.query(`delete from ${quotedTable(table)} where ${key} = ${this.database.parameter(1)}`, [
        job,
      ]);
    });
  }

  /** Finds out what the table has, and makes it where there is none. @throws DatabaseError, UsageError */
  async begin(): Promise<void> {
    const { place, journal } = this.feed;
    const found = await this.#do('look at the table', () => this.database.describe(place.table), REACH_SECONDS);
    if (found !== undefined) {
      this.#types = new Map(found.columns.map(({ name, type }) => [name, type]));
      this.#fixed = !(await this.#isOwn());
      if (!this.#fixed) this.#layout.recall(found, (type) => KINDS.find((kind) => this.database.typeOf(kind) === type));
    }
    this.#checkFound(found);
    this.#position = journal.run === undefined ? 0 : journalHeader(journal.run).length;
    this.#before = (await stat(journal.path)).size;
    if (found !== undefined) await this.#readKeys();
    await this.#catchUp();
  }

  /** A line was written to the journal. @throws what has gone wrong since */
  poke(): void {
    if (this.#failure !== undefined) throw this.#failure as Error;
    this.#lines += 1;
    if (this.#running !== undefined) return;
    if (this.#lines >= BATCH_ROWS) this.#start();
    else this.#timer ??= setTimeout(() => this.#start(), BATCH_MILLISECONDS);
  }

  /** Once the journal is closed: brings the rest. @throws DatabaseError, UsageError; what has gone wrong before */
  async finish(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#running;
    if (this.#failure !== undefined) throw this.#failure as Error;
    await this.#catchUp();
    await this.database.idle();
  }

  /** All rows are there: makes the table where there was none, and columns that no row had anything for. */
  async complete(): Promise<void> {
    this.#layout.settle();
    await this.#put([]);
    await this.database.idle();
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.feed.signal?.removeEventListener('abort', this.#onStop);
    await this.#running;
    await this.database.close().catch(() => undefined);
  }

  /** A result as it is told where rows go that failed; itself where the table took it. */
  told(result: ResultLine): ResultLine {
    const words = this.#refused.get(keyOf(result));
    return words === undefined ? result : { ...result, error: { code: 'invalid-row', message: words } };
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lines = 0;
    this.#running = this.#catchUp()
      .then(() => this.database.idle())
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => {
        this.#running = undefined;
      });
  }

  #checkFound(table: FoundTable | undefined): void {
    if (table === undefined) return;
    const { place } = this.feed;
    const wrong = mismatches(this.#layout, table, this.database).filter(
      // Of a table that is this job's alone columns are added.
      (words) => this.#types === undefined || this.#fixed || !words.startsWith('no column'),
    );
    if (wrong.length > 0)
      throw new UsageError(
        `${place.name}: found the table ${quotedTable(place.table)} with ${wrong.join('; ')}; expected what these results need; change it, give another, or rename columns of results by \`resultColumns\``,
      );
  }

  /** Tells whether the table has rows of this job, and of no other: then it was made for the job. */
  async #isOwn(): Promise<boolean> {
    const { place, job } = this.feed;
    const key = quoted(this.#layout.keys[0] ?? '');
    const rows = await this.#do('look at the rows', () =>
      this.database.query(
        `select count(*), count(case when ${key} = ${this.database.parameter(1)} then 1 end) from (select distinct ${key} from ${quotedTable(place.table)}) t`,
        [job],
      ),
    ).catch(() => []);
    const [jobs, own] = rows[0] ?? [];
    return Number(jobs) === 1 && Number(own) === 1;
  }

  async #readKeys(): Promise<void> {
    const { place, job } = this.feed;
    const [own, index, sample] = this.#layout.keys.map(quoted) as [string, string, string];
    const [first, second, third] = [1, 2, 3].map((number) => this.database.parameter(number));
    const failed = quoted(this.#layout.errorCode);
    for (let [atIndex, atSample] = [-1, 0]; ;) {
      const page = await this.#do('read which rows it has', () =>
        this.database.query(
          `select ${index}, ${sample}, case when ${failed} is null then 0 else 1 end from ${quotedTable(place.table)}
           where ${own} = ${first} and (${index} > cast(${second} as bigint) or (${index} = cast(${second} as bigint) and ${sample} > cast(${third} as bigint)))
           order by ${index}, ${sample} limit ${PAGE_KEYS}`,
          [job, atIndex, atSample],
        ),
      );
      for (const [row, number, bad] of page) if (Number(bad) === 0) this.#there.add(Number(row), 0, Number(number));
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE_KEYS) return;
      [atIndex, atSample] = [Number(last[0]), Number(last[1])];
    }
  }

  /** Brings what stands in the journal by now. */
  async #catchUp(): Promise<void> {
    const { path } = this.feed.journal;
    const from = this.#position;
    let rows: FinishedRow[] = [];
    let bytes = 0;
    let end = from;
    const flush = async (): Promise<void> => {
      if (rows.length > 0) await this.#put(rows);
      this.#position = end;
      [rows, bytes] = [[], 0];
    };
    const pieces = createReadStream(path, { start: from, highWaterMark: 2 ** 20 });
    for await (const line of journalLines({ path, run: undefined }, { pieces })) {
      end = from + line.end;
      for (const row of rowsOfResult(line.result)) {
        if (this.#isThere(line, row, end)) continue;
        const { carry, ...result } = resultOfLine(row);
        rows.push({ result, carry });
      }
      if (rows.length > 0) bytes += line.bytes.length;
      if (rows.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush();
    }
    await flush();
  }

  #isThere({ failed }: JournalLine, { index, sample, chunk }: ResultLine, end: number): boolean {
    if (failed && this.feed.withoutErrors) return true;
    return !failed && end <= this.#before && this.#there.check(index, 0, sample ?? chunk ?? 0) === 'done';
  }

  /** @throws DatabaseError, UsageError */
  async #put(rows: readonly FinishedRow[]): Promise<void> {
    this.#layout.add(rows);
    const statements = this.#statements(rows);
    if (statements.length > 0) {
      await this.#do('make the table', () => this.database.write(statements, undefined));
      const found = await this.#do('look at the table', () => this.database.describe(this.feed.place.table));
      this.#types = new Map(found?.columns.map(({ name, type }) => [name, type]));
    }
    if (rows.length > 0) await this.#upsert(rows);
  }

  /** Gives the statements that make the table, or columns that it lacks yet, or give these room. */
  #statements(rows: readonly FinishedRow[]): readonly string[] {
    const { table } = this.feed.place;
    const { columns, keys } = this.#layout;
    const typeOf = ({ kind, value }: (typeof columns)[number]): string =>
      this.database.typeOf(kind, isVector(kind) ? lengthOf(rows.map(value)) : undefined);
    const types = this.#types;
    if (types === undefined) {
      const all = columns.map(
        (column) => `${quoted(column.name)} ${typeOf(column)}${keys.includes(column.name) ? ' not null' : ''}`,
      );
      return [`create table ${quotedTable(table)} (${all.join(', ')}, primary key (${keys.map(quoted).join(', ')}))`];
    }
    const statements: string[] = [];
    for (const column of columns) {
      const [type, there] = [typeOf(column), this.#typeOf(column.name)];
      if (there === undefined) {
        if (this.#fixed)
          throw new UsageError(
            `${this.database.name}: found the table ${quotedTable(table)} without a column ${quoted(column.name)}, which rows carry, expected one of ${type}; add it and go on with \`resume\``,
          );
        statements.push(`alter table ${quotedTable(table)} add column ${quoted(column.name)} ${type}`);
      } else if (!this.#fixed && there !== type && this.#layout.isCarried(column.name)) {
        const wider = this.database.widen(table, { name: column.name, type });
        if (wider !== undefined) statements.push(wider);
      }
    }
    return statements;
  }

  #typeOf(name: string): string | undefined {
    const own = this.#types?.get(name);
    if (own !== undefined || !this.database.foldsNames) return own;
    return [...(this.#types ?? [])].find(([each]) => each.toLowerCase() === name.toLowerCase())?.[1];
  }

  /** Rows that do not fit are found by halves, and stand there with an error instead. */
  async #upsert(rows: readonly FinishedRow[]): Promise<void> {
    try {
      await this.#write(rows);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const [only] = rows;
      if (rows.length > 1) {
        const half = Math.ceil(rows.length / 2);
        await this.#upsert(rows.slice(0, half));
        await this.#upsert(rows.slice(half));
      } else if (only) await this.#refuse(only, error);
    }
  }

  async #refuse({ result }: FinishedRow, { message }: Refusal): Promise<void> {
    this.#refused.set(keyOf(result), message);
    const what = `row ${result.index}: ${message}`;
    if (this.#refused.size > MOST_REFUSED)
      throw new DatabaseError(
        this.database.name,
        `found more than ${MOST_REFUSED} rows that do not fit into ${quotedTable(this.feed.place.table)}, the last one ${what}; change the table and go on with \`resume\``,
      );
    if (this.feed.withoutErrors) return;
    const { id, index, sample, chunk, usage } = result;
    const failed: FinishedRow['result'] = {
      id: `${id}`.replaceAll('\0', '\ufffd'),
      index,
      ...(sample !== undefined && { sample }),
      ...(chunk !== undefined && { chunk }),
      usage,
      error: { code: 'invalid-row', message: message.replaceAll('\0', '\ufffd') },
    };
    await this.#write([{ result: failed, carry: undefined }]).catch((error: unknown) => {
      throw error instanceof Refusal ? new DatabaseError(this.database.name, `cannot take ${what}`) : error;
    });
  }

  #write(rows: readonly FinishedRow[]): Promise<void> {
    const { columns, keys } = this.#layout;
    const upsert = {
      table: this.feed.place.table,
      columns: columns.map(({ name, kind }) => ({ name, type: this.#typeOf(name) ?? this.database.typeOf(kind) })),
      keys,
      rows: rows.map((row) => cellsOf(columns, row)),
    };
    return this.#do(WRITING, () => this.database.write([], upsert));
  }

  /** @throws DatabaseError; Refusal for a value; InterruptedError */
  #do<T>(
    what: string,
    work: () => Promise<T>,
    seconds = this.feed.output.waitSeconds ?? DATABASE_WAIT.fallback,
  ): Promise<T> {
    const { database, feed } = this;
    const stopped = feed.signal?.aborted === true;
    const wait = stopped ? PARTING_SECONDS : seconds;
    let away = false;
    const told = async (): Promise<T> => {
      try {
        const value = await work();
        if (away) feed.output.onNotice?.(`${database.name}: is back`);
        return value;
      } catch (error) {
        if (!away && database.failureOf(error) === 'away' && wait > 0) {
          away = true;
          const words = wordsOf(error, database.secrets);
          feed.output.onNotice?.(
            `${database.name}: cannot ${what}: ${words}; tried again for up to ${wait} s; what is finished stands in ${feed.journal.path}`,
          );
        }
        throw error;
      }
    };
    return persistently(
      {
        name: database.name,
        secrets: database.secrets,
        isTransient: (error) => database.failureOf(error) === 'away',
        failure: (reason, error) =>
          what === WRITING && database.failureOf(error) === 'value'
            ? new Refusal(wordsOf(error, database.secrets).split('\n', 1)[0] ?? '')
            : new DatabaseError(
                database.name,
                `${reason.replace(EXCERPT, '')}${database.failureOf(error) === 'away' ? `, for ${wait} s` : ''}; what is finished stands in ${feed.journal.path}, and \`resume\` goes on`,
              ),
      },
      what,
      told,
      { seconds: wait, signal: this.#parting.signal },
    );
  }
}

/** A value that a table has no place for. */
class Refusal extends DatabaseError {
  constructor(words: string) {
    super('', '');
    this.message = words;
  }
}

function keyOf({ index, sample, chunk }: Pick<ResultLine, 'index' | 'sample' | 'chunk'>): string {
  return `${index}/${sample ?? chunk ?? 0}`;
}

/** Gives the length common to vectors; undefined where there is no vector. */
function lengthOf(vectors: readonly unknown[]): number | undefined {
  const vector = vectors.find(Array.isArray);
  return vector?.length;
}
