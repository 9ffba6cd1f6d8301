import { stat } from 'node:fs/promises';
import { found } from '../../arguments/found.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { bytesOf, readable } from '../../files/fileBytes.js';
import { CountedInput } from './CountedInput.js';
import { plainRows } from './plainRows.js';
import { isRead, tableOfRows } from './tableOfRows.js';
import { filesOf, fingerprintFiles, type InputFingerprint } from '../record/fingerprint.js';
import { decompressed } from '../formats/compression.js';
import { jsonl } from '../formats/jsonl.js';
import { likeParameters } from '../formats/parseRow.js';
import type { ReadOptions, RowFormat, RowSource } from '../formats/RowFormat.js';
import type { Table } from '../formats/Table.js';
import { checkPromptColumn, fieldsOfTable } from '../formats/tableRow.js';
import { readableRow } from '../../rows/readableRow.js';
import { checkTemplateFields } from '../../rows/promptTemplate.js';
import { isAbsent } from '../../rows/rowFields.js';
import type { JobFileState } from '../jobFiles.js';
import type { InputFile, JobFormats } from '../jobFormats.js';
import type { JobOptions } from '../JobOptions.js';
import { commonOptions, jobTaskOf } from '../jobTask.js';
import type { JobTaskName } from '../../Results.js';

/** Rows that say which fields there are, of lines of JSON. */
const HEAD_ROWS = 100;

/**
 * Where a job's rows come from: regular files, which are counted and can be read again; a pipe, a device or the
 * caller's rows, which come once.
 */
export class JobInput {
  #table: Table | undefined;
  #toldColumns = false;

  private constructor(
    private readonly options: JobOptions,
    private readonly task: JobTaskName,
    private readonly format: RowFormat,
    /** A pipe or a device. */
    private readonly special: InputFile | undefined,
    private readonly counted: readonly CountedInput[],
  ) {}

  /** @throws JobFileError, InterruptedError */
  static async open(
    options: JobOptions,
    task: JobTaskName,
    { input: { format }, inputs }: JobFormats,
    state: JobFileState['input'],
  ): Promise<JobInput> {
    const [first] = inputs;
    const special = state === 'special' ? first : undefined;
    if (special !== undefined && format.needsFile === true) {
      throw new JobFileError(
        special.path,
        `found a pipe or device, expected a regular file, as ${format.name} is read from its end`,
      );
    }
    const counted: CountedInput[] = [];
    if (special === undefined)
      for (const { path, file } of inputs)
        counted.push(await CountedInput.count(path, file, commonOptions(options).signal));
    const opened = new JobInput(options, task, format, special, counted);
    for (const file of counted) await opened.#checkHead(file);
    return opened;
  }

  /** As `checkJobInput`. */
  static async checkHeads(options: JobOptions, task: JobTaskName, { input, inputs }: JobFormats): Promise<void> {
    const { onColumns: _, ...others } = options;
    const looked = new JobInput(others, task, input.format, undefined, []);
    for (const { path, file } of inputs) {
      const stats = await stat(path).catch(() => undefined);
      if (stats?.isFile() !== true) continue;
      await looked.#checkHead({
        name: path,
        path,
        bytes: () => decompressed(readable(bytesOf(path), path), file.compression, path),
      });
    }
  }

  /** A table says all with its header, lines of JSON something with the first ones. */
  async #checkHead(source: RowSource): Promise<void> {
    if (this.format.carries !== true && this.format !== jsonl) return;
    const template = commonOptions(this.options).promptTemplate;
    const known = new Set<string>();
    let rows = 0;
    for await (const row of this.#rowsOf(source, false, false)) {
      if (this.format !== jsonl) return;
      if ('fields' in row)
        for (const [name, value] of Object.entries(row.fields ?? {})) if (!isAbsent(value)) known.add(name);
      if (!('error' in row)) rows += 1;
      if (rows >= HEAD_ROWS) break;
    }
    if (template === undefined || rows === 0) return;
    checkTemplateFields(
      template,
      known,
      `${rows === 1 ? 'the first row' : `the first ${rows} rows`} of ${source.name} do`,
      false,
    );
  }

  /** Rows, where they could be counted; else not known before the end. */
  get rows(): number | undefined {
    return this.again ? this.counted.reduce((sum, { rows }) => sum + rows, 0) : undefined;
  }

  /** Tells whether the input can be read again. */
  get again(): boolean {
    return this.counted.length > 0;
  }

  /** Undefined for what comes once. */
  get fingerprint(): InputFingerprint | undefined {
    return this.again ? fingerprintFiles(this.counted.map(({ fingerprint }) => fingerprint)) : undefined;
  }

  /**
   * The facts that rows have in common, once the first one has been read; of input that comes once only where it goes
   * with the results.
   */
  get table(): Table | undefined {
    const { input } = this.options;
    return this.#table ?? (typeof input === 'object' ? tableOfRows(input) : undefined);
  }

  /**
   * Tells whether earlier builds took parameters from columns of the input that nobody had named, or may have: the rest
   * of an output that was begun so would be other answers.
   */
  get hadParameters(): boolean {
    const { columns } = this.options;
    if (this.special === undefined && !this.again) return false;
    if (this.format.carries !== true) return this.format === jsonl && this.#templated;
    return !this.again || likeParameters(this.table?.columns ?? [], columns, this.#ownTexts).length > 0;
  }

  get #templated(): boolean {
    return commonOptions(this.options).promptTemplate !== undefined;
  }

  /** Tells whether rows may have labels and completions in columns that nobody named: not where the run has them. */
  get #ownTexts(): boolean {
    const { classify, score } = this.options;
    return classify?.labels === undefined && score?.completions === undefined;
  }

  /**
   * Tells whether the input is what it once was, with more rows after: lines of its last file, or files.
   * @throws JobFileError, InterruptedError
   */
  async continues(before: InputFingerprint): Promise<boolean> {
    const files = filesOf(before);
    if (files === undefined || files.length > this.counted.length) return false;
    for (const [at, was] of files.entries()) {
      const is = this.counted[at];
      const same = is?.fingerprint.sha256 === was.sha256;
      if (!same && !(at === files.length - 1 && (await is?.continues(was)) === true)) return false;
    }
    return true;
  }

  /**
   * The rows, from the first one on; again, where they are of files.
   * @param carryFields whether what is not ours goes with them
   * @param exact whether into a file of the format that they come from
   * @param joined whether it is read again, and goes with the results then
   */
  read(
    carryFields: boolean,
    exact = false,
    joined?: ReadOptions['joined'],
  ): AsyncIterable<RowInput> | Iterable<RowInput> {
    const { special } = this;
    if (special !== undefined) {
      const { path, file } = special;
      return this.#rowsOf(
        {
          name: path,
          bytes: () =>
            decompressed(readable(bytesOf(path, commonOptions(this.options).signal), path), file.compression, path),
        },
        carryFields,
        exact,
      );
    }
    return this.again ? this.#rowsOfAll(carryFields, exact, joined) : (this.options.input as Iterable<RowInput>);
  }

  /** How a row is read that a program gives, and is none of our readers'. */
  rowReader(carried: boolean): (given: unknown) => RowInput {
    const { input, columns, carryFields = false, onColumns } = this.options;
    if (this.special !== undefined || this.again || isRead(input)) return readableRow;
    const [templated, ownTexts] = [this.#templated, this.#ownTexts];
    return plainRows({ columns, ownTexts, templated, carried, carryFields, onColumns });
  }

  /** @throws JobFileError if a file is not what was counted any more; InterruptedError */
  async checkUnchanged(): Promise<void> {
    for (const file of this.counted) await file.checkUnchanged();
  }

  async *#rowsOfAll(
    carryFields: boolean,
    exact: boolean,
    joined: ReadOptions['joined'],
  ): AsyncGenerator<RowInput, void, undefined> {
    for (const file of this.counted) yield* this.#rowsOf(file, carryFields, exact, joined);
  }

  #rowsOf(
    source: RowSource,
    carryFields: boolean,
    exact: boolean,
    joined?: ReadOptions['joined'],
  ): AsyncGenerator<RowInput, void, undefined> {
    const { columns, delimiter } = this.options;
    const templated = this.#templated;
    const options: ReadOptions = {
      task: this.task,
      carryFields,
      exact,
      ...(joined && { joined }),
      templated,
      ownTexts: this.#ownTexts,
      maxLineBytes: ROW_LIMITS.lineBytes,
      ...(columns && { columns }),
      ...(delimiter !== undefined && { delimiter }),
      onColumns: (taken) => {
        if (!this.#toldColumns) this.options.onColumns?.(taken);
        this.#toldColumns = true;
      },
      onTable: (table) => {
        if (!templated) checkPromptColumn(source.name, table.columns, columns);
        else
          checkTemplateFields(
            commonOptions(this.options).promptTemplate ?? '',
            new Set([...table.columns, ...fieldsOfTable(source.name, table.columns, columns).map(([field]) => field)]),
            `the columns of ${source.name} do`,
            true,
          );
        if (!carryFields && !this.again) return;
        if (this.#table === undefined) this.#table = table;
        else checkSameTable(source.name, this.#table, table);
      },
    };
    return this.format.rows(source, options);
  }
}

/** @throws JobFileError for a table that differs from the first one in its columns, or in what they hold */
function checkSameTable(name: string, first: Table, table: Table): void {
  const typesAt = ({ typed }: Table, at: number): string | undefined =>
    typed && JSON.stringify(typed[at]?.leaves.map(typeOf));
  // There may be tens of thousands, most often without types.
  const at = table.columns.findIndex(
    (column, place) => column !== first.columns[place] || typesAt(table, place) !== typesAt(first, place),
  );
  if (table.columns.length === first.columns.length && at < 0) return;
  const [is, was] = [
    table.columns[at < 0 ? first.columns.length : at],
    first.columns[at < 0 ? table.columns.length : at],
  ];
  const how = is === was ? 'of another type' : `where the first file has ${was === undefined ? 'none' : found(was)}`;
  throw new JobFileError(
    name,
    `found ${is === undefined ? 'no column' : `the column ${found(is)}`} ${how}, expected all files of an input to have the same columns`,
  );
}

function typeOf({
  element: { type, converted_type: old, logical_type: kind, scale, type_length: length },
  definition,
  repetition,
  path,
}: NonNullable<Table['typed']>[number]['leaves'][number]): object {
  // Values are written by their place: of a structure what is where, and what may be absent, is part of its type. What
  // the one thing in a list is called is not.
  const places = path
    .slice(1)
    .map(({ element: { name, repetition_type: there } }, at) => [
      (path[at]?.children.length ?? 0) > 1 ? name : '',
      there,
    ]);
  return { type, old, kind, scale, length, definition, repetition, places };
}

/**
 * Looks at the beginning of each file of an input, which is not read further: for a caller that has slow work to do
 * before the job is opened.
 * @throws JobFileError for a table without prompts, or without columns that are named; UsageError for a template with a
 * field that no row has
 */
export async function checkJobInput(options: JobOptions, formats: JobFormats): Promise<void> {
  await JobInput.checkHeads(options, jobTaskOf(options).name, formats);
}
