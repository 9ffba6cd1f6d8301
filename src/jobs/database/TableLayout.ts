import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import { cell } from '../formats/columnText.js';
import { resultColumns } from '../formats/resultColumns.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { addKinds, type ColumnKind, flatKind, type FlatKind } from '../formats/Table.js';
import type { Cell, FoundTable, TableDatabase } from './TableDatabase.js';

interface LaidColumn {
  readonly name: string;
  readonly kind: FlatKind;
  readonly value: (row: FinishedRow) => unknown;
}

/** The column names of a row's key where nothing else is said. */
const KEY = ['job', 'index', 'sample'] as const;

/** Rows are not trusted: each may have fields of its own. */
const MOST_COLUMNS = 1024;

/**
 * The columns of a table of results: the key of a row, what rows carry, and the answers. What rows carry is known as
 * they come, where the input does not say it before.
 */
export class TableLayout {
  /** The names of the columns that are the key: job, index and sample. */
  readonly keys: readonly string[];
  /** The name of the column that has errors' codes. */
  readonly errorCode: string;
  readonly #results: readonly (LaidColumn & { readonly was: string })[];
  /** Columns that rows carry, and the kind of what is in each by now. */
  readonly #carried = new Map<string, FlatKind | undefined>();
  /** Columns of a table that is gone on with. */
  readonly #found = new Map<string, FlatKind | undefined>();
  readonly #folded = new Map<string, string>();

  /** @throws UsageError for a name that stands twice */
  constructor(
    job: string,
    private readonly options: WriteOptions,
    private readonly database: Pick<TableDatabase, 'name' | 'foldsNames' | 'checkName'>,
  ) {
    const carried = options.table()?.columns ?? [];
    const results = resultColumns(carried, options);
    const values: Readonly<Record<string, LaidColumn['value']>> = {
      job: () => job,
      sample: ({ result }) => result.sample ?? result.chunk ?? 0,
    };
    this.#results = results.map(({ name, type, value, was, ofSchema }) => ({
      name,
      was: ofSchema ? '' : was,
      kind: flatKind(type),
      value: (ofSchema ? undefined : values[was]) ?? (({ result }: FinishedRow) => value(result)),
    }));
    const nameOf = (own: string): string => this.#results.find(({ was }) => was === own)?.name ?? own;
    this.keys = KEY.map(nameOf);
    this.errorCode = nameOf('error_code');
    for (const { name } of this.#results) this.#take(name);
    for (const name of carried) this.#carry(name);
  }

  /** The columns of which it is known what is in them: a column is not made before there is a value for it. */
  get columns(): readonly LaidColumn[] {
    return this.all.filter(({ name }) => !this.#carried.has(name) || this.#carried.get(name) !== undefined);
  }

  get all(): readonly LaidColumn[] {
    const carried = [...this.#carried].map(([name, kind = 'text']) => ({
      name,
      kind,
      value: ({ carry }: FinishedRow) => carry?.[name],
    }));
    const isKey = ({ name }: LaidColumn): boolean => this.keys.includes(name);
    return [
      ...this.keys.flatMap((key) => this.#results.filter(({ name }) => name === key)),
      ...carried,
      ...this.#results.filter((column) => !isKey(column)),
    ];
  }

  /** Adds the columns that rows to be written carry. @throws UsageError for names that are one, or too many */
  add(rows: readonly FinishedRow[]): void {
    const kinds = new Map<string, ColumnKind>(
      [...this.#carried].flatMap(([name, kind]) => (kind === undefined ? [] : [[name, kind] as const])),
    );
    for (const { carry } of rows) {
      if (carry === undefined) continue;
      for (const name of Object.keys(carry)) this.#carry(name);
      addKinds(kinds, carry);
    }
    for (const [name, kind] of kinds) this.#carried.set(name, flatKind(kind));
  }

  /** No more rows come: what was empty in all of them is text. */
  settle(): void {
    for (const [name, kind] of this.#carried) if (kind === undefined) this.#carried.set(name, 'text');
  }

  /** Takes up the columns that a table has of a run before: they are as wide as that run needed them. */
  recall({ columns }: FoundTable, kindOf: (type: string) => FlatKind | undefined): void {
    for (const { name, type } of columns) {
      this.#found.set(name, kindOf(type));
      if (this.#carried.has(name)) this.#carried.set(name, kindOf(type));
    }
  }

  isCarried(name: string): boolean {
    return this.#carried.has(name);
  }

  #carry(name: string): void {
    if (this.#carried.has(name)) return;
    if (this.#results.some((column) => column.name === name))
      throw new UsageError(
        `${this.options.name}: found ${found(name)} among what rows carry, and a result column of that name, expected each name once; \`resultColumns\` gives the results another, and \`resultPrefix\` puts the same before all of them`,
      );
    this.#take(name);
    this.#carried.set(name, this.#found.get(name));
  }

  #take(name: string): void {
    this.database.checkName(name);
    const folded = this.database.foldsNames ? name.toLowerCase() : name;
    const other = this.#folded.get(folded);
    if (other !== undefined && other !== name)
      throw new UsageError(
        `${this.options.name}: found the columns ${found(other)} and ${found(name)}, which are one for ${this.database.name}, expected each name once; \`resultColumns\` renames those of results`,
      );
    this.#folded.set(folded, name);
    if (this.#folded.size > MOST_COLUMNS)
      throw new UsageError(
        `${this.options.name}: found more than ${MOST_COLUMNS} names of carried fields and results, expected at most so many columns; write lines of JSON`,
      );
  }
}

/** The values of a row, in the order of the columns. */
export function cellsOf(columns: readonly LaidColumn[], row: FinishedRow): readonly Cell[] {
  return columns.map(({ kind, value }) => cellOf(value(row), kind));
}

function cellOf(value: unknown, kind: FlatKind): Cell {
  if (value === undefined || value === null) return null;
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (value instanceof Date) return cell(value) ?? null;
  // Of kinds that are text a database makes the text itself.
  if (kind === 'text' && typeof value === 'object') return cell(value) ?? null;
  return value as Cell;
}

/** Says in words what a table that results are to go to lacks; nothing where they fit. */
export function mismatches(layout: TableLayout, table: FoundTable, database: TableDatabase): readonly string[] {
  const types = new Map(table.columns.map(({ name, type }) => [name, type]));
  const folded = new Map(table.columns.map(({ name }) => [name.toLowerCase(), name]));
  const wrong: string[] = [];
  const needed = new Set<string>();
  for (const { name, kind } of layout.all) {
    const own = database.foldsNames ? (folded.get(name.toLowerCase()) ?? name) : name;
    needed.add(own);
    const type = types.get(own);
    if (type === undefined) wrong.push(`no column ${found(name)} of ${database.typeOf(kind)}`);
    else if (!layout.isCarried(name) && !database.takes(type, kind))
      wrong.push(`the column ${found(name)} of ${type} in place of ${database.typeOf(kind)}`);
  }
  for (const { name, needed: isNeeded } of table.columns)
    if (isNeeded && !needed.has(name)) wrong.push(`the column ${found(name)}, which no row may leave out`);
  const isKey = (key: readonly string[]): boolean =>
    key.length === layout.keys.length &&
    layout.keys.every((name) =>
      key.some((each) => each === name || (database.foldsNames && each.toLowerCase() === name.toLowerCase())),
    );
  if (!table.keys.some(isKey)) wrong.push(`no primary key or unique index of ${layout.keys.join(', ')}`);
  return wrong;
}
