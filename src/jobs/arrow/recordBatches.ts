import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { found } from '../../arguments/found.js';
import { isIterable, membersOf } from '../../arguments/isObject.js';
import { whole } from '../../arguments/memberChecks.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { AnyResult } from '../../Results.js';
import { checkEncodeOptions, ENCODE_CHECKS } from '../output/encodeResults.js';
import { flatKind, itemKindOf, type ColumnKind } from '../formats/Table.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { answerColumns, carriedColumns, carriedNames, storedValue, type TableColumn } from '../formats/tableColumns.js';
import { resultsAlone, toldTask, type ResultTableOptions } from '../output/resultsAlone.js';

/**
 * The parts of the package `apache-arrow` that batches are made with: `import * as arrow from 'apache-arrow'`. Each
 * class is called with `new`.
 */
export interface ArrowLibrary {
  readonly RecordBatch: Constructor;
  readonly Schema: Constructor;
  readonly Field: Constructor;
  readonly Struct: Constructor;
  readonly Utf8: Constructor;
  readonly Int32: Constructor;
  readonly Int64: Constructor;
  readonly Int8: Constructor;
  readonly Uint8: Constructor;
  readonly Float16: Constructor;
  readonly Float32: Constructor;
  readonly Float64: Constructor;
  readonly Bool: Constructor;
  readonly List: Constructor;
  readonly Map_: Constructor;
  readonly TimestampMillisecond: Constructor;
  makeData(properties: never): unknown;
  makeBuilder(options: never): unknown;
}
// The package's classes differ in what they take and are generic; TypeScript infers an instance's type through nothing
// narrower.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Constructor = abstract new (...values: any[]) => any;

interface Builder {
  append(value: unknown): unknown;
  finish(): { flush(): unknown };
}

export interface RecordBatchesOptions<Arrow extends ArrowLibrary> extends ResultTableOptions {
  /** The package `apache-arrow`, as `import * as arrow` has it: the batches are of this copy. */
  readonly arrow: Arrow;
  /** Rows of a batch. Default 1024. */
  readonly batchRows?: number;
}

/** The types of the items in lists of numbers. */
const ITEMS = { vector: 'Float32', vector16: 'Float16', vector8: 'Int8', bytes: 'Uint8' } as const;
const BATCH_ROWS = 1024;
const CLASSES = [
  'RecordBatch',
  'Schema',
  'Field',
  'Struct',
  'Utf8',
  'Int32',
  'Int64',
  'Int8',
  'Uint8',
  'Float16',
  'Float32',
  'Float64',
  'Bool',
  'List',
  'Map_',
  'TimestampMillisecond',
  'makeData',
  'makeBuilder',
] as const;

const checkArrow: Check = (name, value) => {
  const missing = CLASSES.find((each) => typeof membersOf(value)[each] !== 'function');
  if (missing !== undefined)
    throw new UsageError(
      `${name}: found ${found(value)}, without ${missing}, expected the package apache-arrow: import * as arrow from 'apache-arrow'`,
    );
};

const { format: _format, delimiter: _delimiter, ...COMMON } = ENCODE_CHECKS;
const CHECKS: Readonly<Record<keyof RecordBatchesOptions<ArrowLibrary>, Check>> = {
  ...COMMON,
  arrow: checkArrow,
  batchRows: whole(1),
};

/**
 * Results as record batches of Apache Arrow, as they come, with the columns that a Parquet file of them has: those that
 * the first batch's rows carry (`row`), and those of results; integers of 64 bits, lists of texts, numbers and truth
 * values as such, embeddings as lists of float32.
 * Where there is no result there is one batch without rows, which has the columns.
 * @throws UsageError at once for a wrong argument, ResponseFormatError for what is no JSON Schema; while it is
 * iterated, JobFileError for a row that does not fit into the first batch's columns, and
 *   whatever the source throws
 * @example
 * import * as arrow from 'apache-arrow';
 * await pipeline(await arrow.RecordBatchStreamWriter.writeAll(recordBatches(engine.generate(rows), { arrow })),
 * createWriteStream('answers.arrows'));
 */
export function recordBatches<Arrow extends ArrowLibrary>(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>,
  options: RecordBatchesOptions<Arrow>,
): AsyncGenerator<InstanceType<Arrow['RecordBatch']>, void, undefined> {
  if (!isIterable(results)) throw new UsageError(`results: found ${found(results)}, expected an iterable of results`);
  checkMembers('options', options, CHECKS);
  const { arrow, batchRows = BATCH_ROWS, ...others } = options;
  checkArrow('arrow', arrow);
  checkEncodeOptions(others);
  return batchesOf(results, arrow, batchRows, others);
}

async function* batchesOf<Arrow extends ArrowLibrary>(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>,
  arrow: Arrow,
  batchRows: number,
  others: ResultTableOptions,
): AsyncGenerator<InstanceType<Arrow['RecordBatch']>, void, undefined> {
  const { task, rows } = await toldTask(results, others.task);
  const options = resultsAlone(others, task);
  let maker: BatchMaker | undefined;
  let pending: FinishedRow[] = [];
  const batch = (): InstanceType<Arrow['RecordBatch']> => {
    maker ??= new BatchMaker(arrow, pending, options);
    const made = maker.batch(pending) as InstanceType<Arrow['RecordBatch']>;
    pending = [];
    return made;
  };
  for await (const row of rows) {
    pending.push(row);
    if (pending.length >= batchRows) yield batch();
  }
  if (pending.length > 0 || maker === undefined) yield batch();
}

type TypedColumn = TableColumn & { readonly type: unknown };

/** Makes batches of one schema, which the first rows decide. */
class BatchMaker {
  readonly #new: (
    name: Exclude<keyof ArrowLibrary, 'makeData' | 'makeBuilder'>,
    ...values: readonly unknown[]
  ) => unknown;
  readonly #columns: readonly TypedColumn[];
  readonly #fields: readonly unknown[];

  constructor(
    private readonly arrow: ArrowLibrary,
    first: readonly FinishedRow[],
    private readonly options: WriteOptions,
  ) {
    this.#new = (name, ...values) => Reflect.construct(arrow[name], values) as unknown;
    const names = carriedNames(first, options);
    this.#columns = [...carriedColumns(names, first, options), ...answerColumns(names, options)].map((column) => ({
      ...column,
      type: this.#typeOf(column.kind),
    }));
    this.#fields = this.#columns.map(({ name, type }) => this.#new('Field', name, type, true));
  }

  batch(rows: readonly FinishedRow[]): unknown {
    const children = this.#columns.map((column) => this.#column(column, rows));
    const type = this.#new('Struct', this.#fields);
    const data = this.arrow.makeData({ type, length: rows.length, nullCount: 0, children } as never);
    return this.#new('RecordBatch', this.#new('Schema', this.#fields), data);
  }

  #column({ name, kind, type, value }: TypedColumn, rows: readonly FinishedRow[]): unknown {
    const builder = this.arrow.makeBuilder({ type, nullValues: [null] } as never) as Builder;
    try {
      for (const row of rows) builder.append(storedValue(value(row), kind));
    } catch (error) {
      if (error instanceof JobFileError) throw error;
      throw new JobFileError(
        this.options.name,
        `column ${name}: ${error instanceof Error ? error.message : String(error)}`,
        { cause: error },
      );
    }
    return builder.finish().flush();
  }

  #typeOf(kind: ColumnKind): unknown {
    const items = itemKindOf(kind);
    if (items !== undefined) return this.#new('List', this.#new('Field', 'item', this.#typeOf(items), true));
    const flat = flatKind(kind);
    switch (flat) {
      case 'text':
        return this.#new('Utf8');
      case 'integer':
        return this.#new('Int64');
      case 'count':
        return this.#new('Int32');
      case 'number':
        return this.#new('Float64');
      case 'boolean':
        return this.#new('Bool');
      case 'moment':
        return this.#new('TimestampMillisecond', 'UTC');
      case 'map':
        return this.#new(
          'Map_',
          this.#new(
            'Field',
            'entries',
            this.#new('Struct', [
              this.#new('Field', 'key', this.#new('Utf8'), false),
              this.#new('Field', 'value', this.#new('Float64'), true),
            ]),
            false,
          ),
        );
      case 'vector':
      case 'vector16':
      case 'vector8':
      case 'bytes':
        return this.#new('List', this.#new('Field', 'item', this.#new(ITEMS[flat]), true));
    }
  }
}
