import { checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { didYouMean } from '../arguments/nearest.js';
import { isObject } from '../arguments/isObject.js';
import { UsageError } from '../errors/UsageError.js';
import type { AnyResult } from '../Results.js';
import type { GenerateOptions, RowInput } from '../Row.js';
import { carriesInto, type JobFormats } from './jobFormats.js';
import type { JobOptions } from './JobOptions.js';
import { asAnswer, comparedText } from './comparedText.js';
import type { Question } from '../rows/questions.js';
import type { Calibration, TruthReport } from './TruthReport.js';

const BINS = 10;
/** Different texts that the report tells apart, and units of each: rows are not trusted. */
const MOST_TEXTS = 256;
const TEXT_UNITS = 256;
const OTHERS = '…';

/** Tells whether a job reads of its rows what is no field of theirs. */
export function readsCarry({ carryFields, truth }: Pick<JobOptions, 'carryFields' | 'truth'>): boolean {
  return carryFields === true || truth !== undefined;
}

/** A column, `COLUMN`, or one and which answer it is the truth of, `NAME=COLUMN`. @throws UsageError */
export function checkTruth(name: string, value: unknown): asserts value is string {
  const expected = 'a column, or NAME=COLUMN for one of several answers';
  checkText(name, value, expected);
  if (value === '' || value.startsWith('=') || value.endsWith('='))
    throw new UsageError(`${name}: found ${found(value)}, expected ${expected}`);
}

/** @throws UsageError for a column that the table does not have */
export function checkTruthColumn(truth: string, columns: readonly string[]): void {
  const column = truth.slice(truth.indexOf('=') + 1);
  if (!columns.includes(column))
    throw new UsageError(
      `truth: found the column ${found(column)}, expected one of the input's: ${columns.join(', ')}${didYouMean(column, columns)}`,
    );
}

/** Compares the answers of a job with a column of its input. */
export class Truth {
  /** The right answers of rows that have no answer yet. */
  private readonly expected = new Map<number, string | undefined>();
  private readonly column: string;
  private readonly answer: string | undefined;
  private readonly counts = { rows: 0, unknown: 0, errors: 0, right: 0 };
  private readonly confusion = new Map<string, Map<string, number>>();
  private readonly texts = new Set<string>();
  private readonly models = new Map<string, { readonly rows: number; readonly right: number }>();
  private readonly bins = Array.from({ length: BINS }, () => ({ rows: 0, confidence: 0, right: 0 }));

  /**
   * @param keepsCarry whether what rows carry goes into results, or was read for this alone
   * @throws UsageError where it is not said which of several answers is meant
   */
  constructor(
    truth: string,
    questions: readonly Question[] | undefined,
    private readonly keepsCarry: boolean,
  ) {
    const at = truth.indexOf('=');
    this.column = truth.slice(at + 1);
    const names = questions?.map(({ name }) => name);
    const told = at < 0 ? undefined : truth.slice(0, at);
    this.answer = told ?? names?.find((name) => name === this.column) ?? (names?.length === 1 ? names[0] : undefined);
    if (names && (this.answer === undefined || !names.includes(this.answer)))
      throw new UsageError(
        `truth: found ${found(truth)} beside the questions ${names.join(', ')}, expected NAME=COLUMN with the name of one of them`,
      );
  }

  /** Makes the comparison of a job, if it has one. @param joins whether what rows carry is read again for tables */
  static of(
    { truth, carryFields = false }: Pick<JobOptions, 'truth' | 'carryFields'>,
    { questions }: Pick<GenerateOptions, 'questions'>,
    formats: JobFormats,
    joins: boolean,
  ): Truth | undefined {
    const keepsCarry = carryFields || (carriesInto(formats, formats.output) && !joins);
    return truth === undefined ? undefined : new Truth(truth, questions, keepsCarry);
  }

  /** Rows on their way to the engine. */
  async *taken(rows: AsyncIterable<RowInput>): AsyncGenerator<RowInput, void, undefined> {
    for await (const row of rows) yield this.take(row);
  }

  /** A row on its way to the engine. */
  take(row: RowInput): RowInput {
    if (row.index !== undefined) this.expected.set(row.index, comparedText(valueOf(row, this.column)));
    if (this.keepsCarry) return row;
    const { carry: _carry, ...others } = row;
    return others;
  }

  /** @returns the same */
  judge(results: readonly AnyResult[]): readonly AnyResult[] {
    for (const result of results) this.judgeOne(result);
    return results;
  }

  private judgeOne(result: AnyResult): void {
    const expected = this.expected.get(result.index);
    this.expected.delete(result.index);
    const { value, confidence } = this.given(result, expected);
    const text = comparedText(value);
    if (text === undefined) this.counts.errors++;
    else if (expected === undefined) this.counts.unknown++;
    else {
      const right = asAnswer(expected, value);
      this.count(this.known(right), this.known(text), confidence, right === text);
      if (result.model !== undefined) this.countModel(result.model, right === text);
    }
  }

  private countModel(model: string, right: boolean): void {
    const counts = this.models.get(model) ?? { rows: 0, right: 0 };
    this.models.set(model, { rows: counts.rows + 1, right: counts.right + Number(right) });
  }

  report(): TruthReport {
    const { column, answer, counts, confusion } = this;
    const told = this.bins.reduce((sum, { rows }) => sum + rows, 0);
    return {
      column,
      ...(answer !== undefined && { answer }),
      ...counts,
      accuracy: counts.rows === 0 ? 0 : counts.right / counts.rows,
      confusion: Object.fromEntries([...confusion].map(([truth, by]) => [truth, Object.fromEntries(by)])),
      ...(told > 0 && { calibration: this.calibration(told) }),
      ...(this.models.size > 0 && { models: Object.fromEntries(this.models) }),
    };
  }

  private calibration(told: number): Calibration {
    const bins = this.bins.flatMap(({ rows, confidence, right }, at) =>
      rows === 0
        ? []
        : [{ from: at / BINS, to: (at + 1) / BINS, rows, confidence: confidence / rows, accuracy: right / rows }],
    );
    const error = bins.reduce((sum, bin) => sum + (bin.rows / told) * Math.abs(bin.accuracy - bin.confidence), 0);
    return { error, bins };
  }

  private count(truth: string, text: string, confidence: number | undefined, right: boolean): void {
    this.counts.rows++;
    if (right) this.counts.right++;
    const by = this.confusion.get(truth) ?? new Map<string, number>();
    this.confusion.set(truth, by.set(text, (by.get(text) ?? 0) + 1));
    const bin = confidence === undefined ? undefined : this.bins[Math.min(BINS - 1, Math.floor(confidence * BINS))];
    if (!bin || confidence === undefined) return;
    bin.rows++;
    bin.confidence += confidence;
    if (right) bin.right++;
  }

  /**
   * Finds the answer that was given, and how sure the model was. Of an object it is the property that is meant: the one
   * of the column's name, or the only one; else all of it, where that is what the column says.
   */
  private given(
    result: AnyResult,
    expected: string | undefined,
  ): { readonly value?: unknown; readonly confidence?: number | undefined } {
    const { answers, label, probability, value, text, confidence, fieldConfidence, error } = result;
    if (answers) {
      const own = this.answer === undefined ? undefined : answers[this.answer];
      return own === undefined || own.error ? {} : { value: own.value ?? own.text, confidence: own.confidence };
    }
    if (error) return {};
    if (label !== undefined) return { value: label, confidence: probability };
    if (!isObject(value)) return { value: value ?? text, confidence };
    const [only, ...others] = Object.keys(value);
    const isOnly = others.length === 0 && expected?.startsWith('{') !== true && !Object.hasOwn(value, this.column);
    const field = this.answer ?? (isOnly ? only : this.column);
    if (field !== undefined && Object.hasOwn(value, field))
      return { value: value[field] ?? 'null', confidence: fieldConfidence?.[field]?.mean };
    return this.answer === undefined ? { value, confidence } : {};
  }

  private known(whole: string): string {
    const text = whole.slice(0, TEXT_UNITS);
    if (this.texts.has(text) || this.texts.size < MOST_TEXTS) {
      this.texts.add(text);
      return text;
    }
    return OTHERS;
  }
}

function valueOf(row: RowInput, column: string): unknown {
  const fields: unknown = 'fields' in row ? row.fields : undefined;
  const sources: readonly unknown[] = [row.carry, fields, row];
  return sources.find(
    (source): source is Readonly<Record<string, unknown>> => isObject(source) && Object.hasOwn(source, column),
  )?.[column];
}
