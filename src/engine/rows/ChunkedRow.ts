import { inTurns } from '../../collections/inTurns.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row, RowChunk, RowResult } from '../../Row.js';
import { filledTemplate } from '../../rows/promptTemplate.js';
import type { RowIdentity } from '../../rows/identified.js';
import { mergePrompts, type MergePrompts } from './mergePrompts.js';
import { partedRow, partInWords, type PartedRow, withoutText } from './partedRow.js';
import { fieldsOf, type RowLimits } from './promptTokens.js';
import type { RowSplitter, SplitPart, SplitRow } from './SplitRows.js';

/** The fields of a row that make its answer several, or call something. */
const NOT_OWN = ['samples', 'tools', 'toolChoice', 'parallelToolCalls'] as const;

/**
 * Rows whose own text is computed in parts, with a template's text already in their prompts: a run of these rows has no
 * template.
 */
export function chunkedRows(
  { promptTemplate, ...options }: GenerateOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): RowSplitter<RowResult> {
  return async (row) => {
    const own = NOT_OWN.find((name) => (row[name] ?? undefined) !== undefined);
    if (own !== undefined)
      throw new RowError('invalid-parameter', `${own}: found it in a row that is computed in parts, expected none`);
    const { chunks, part } = await partedRow(row, { ...options, ...(promptTemplate && { promptTemplate }) }, tokenizer);
    const filled = (of: Row): Row => {
      if (promptTemplate === undefined) return of;
      return { ...withoutText(of), prompt: filledTemplate(promptTemplate, fieldsOf(of)) };
    };
    const merge =
      options.merge === undefined
        ? undefined
        : mergePrompts(row, { merge: options.merge, isTemplated: promptTemplate !== undefined }, options, {
            tokenizer,
            limits,
          });
    return new ChunkedRow({ chunks, part: (chunk) => filled(part(chunk)) }, merge);
  };
}

/** Answers of which fewer are made, and where each came from in words. */
interface Level {
  readonly rows: readonly (() => Row)[];
  readonly results: (RowResult | undefined)[];
  readonly inWords: (at: number) => string;
}

/** A row whose parts are answered; where answers are merged, they become one in as many levels as it takes. */
class ChunkedRow implements SplitRow<RowResult> {
  private level: Level;
  private levels = 0;
  private sent = 0;
  private done = 0;
  private isMerging = false;
  private failed: number | undefined;
  private failure: RowError | undefined;
  /** The tokens of all that was computed for earlier levels. */
  private readonly usage = { promptTokens: 0, completionTokens: 0 };

  constructor(
    private readonly parted: PartedRow,
    private readonly merge: MergePrompts | undefined,
  ) {
    const { chunks, part } = parted;
    this.level = {
      rows: chunks.map((chunk) => () => part(chunk)),
      results: [],
      inWords: (at) => partInWords(chunks, at),
    };
  }

  next(): SplitPart<RowResult> | undefined {
    const { level } = this;
    // After a failure nothing more is of use.
    if (this.isMerging || this.hasFailed) return undefined;
    while (level.results[this.sent]) this.sent++;
    const row = level.rows[this.sent];
    if (!row) return undefined;
    const at = this.sent++;
    return { row: row(), taken: (result) => this.taken(at, result) };
  }

  isDone(underWay: number): boolean {
    if (this.hasFailed) return underWay === 0;
    return !this.isMerging && this.done === this.level.rows.length && (!this.merge || this.done === 1);
  }

  result(identity: RowIdentity): RowResult {
    const { results, inWords } = this.level;
    const { chunks } = this.parted;
    if (this.failed !== undefined || this.failure) {
      // The parts before it are done, whatever came to its end first.
      this.count(results.slice(0, this.failure ? undefined : (this.failed ?? 0) + 1));
      const error = this.failure
        ? { code: this.failure.rowCode, message: this.failure.message }
        : results[this.failed ?? 0]?.error;
      const { code, message } = error ?? { code: 'invalid-row' as const, message: 'it was not computed' };
      return {
        ...identity,
        text: '',
        tokens: [],
        finishReason: 'error',
        usage: { ...this.usage },
        error: { code, message: `${this.failure ? '' : inWords(this.failed ?? 0)}${message}` },
      };
    }
    const all = results.flatMap((result) => (result ? [result] : []));
    this.count(all);
    const usage = { ...this.usage };
    const [last] = all;
    if (this.merge && last)
      return { ...last, ...identity, usage, parts: { count: chunks.length, levels: this.levels } };
    return {
      ...identity,
      text: '',
      tokens: [],
      chunks: all.map((result, at) => chunkOf(result, chunks[at] ?? { start: 0, end: 0 })),
      finishReason: all.some(({ finishReason }) => finishReason === 'length') ? 'length' : 'stop',
      usage,
    };
  }

  private get hasFailed(): boolean {
    return this.failed !== undefined || this.failure !== undefined;
  }

  private async taken(at: number, result: RowResult): Promise<void> {
    const { level } = this;
    level.results[at] = result;
    this.done++;
    if (result.error) this.failed = Math.min(this.failed ?? at, at);
    if (this.merge && !this.hasFailed && this.done === level.rows.length && this.done > 1)
      await this.nextLevel(this.merge, level);
  }

  private async nextLevel(merge: MergePrompts, { results }: Level): Promise<void> {
    const all = results.flatMap((result) => (result ? [result] : []));
    this.isMerging = true;
    try {
      const groups = await inTurns(merge.groups(all.map(({ text }) => text)));
      this.count(all);
      this.levels++;
      let at = 0;
      const parts = groups.map((size) => all.slice(at, (at += size)));
      this.level = {
        rows: parts.map((answers) => () => merge.row(answers.map(({ text }) => text))),
        // What stands alone goes on as it is, and was counted.
        results: parts.map(([first, ...others]) => (others.length === 0 && first ? uncounted(first) : undefined)),
        inWords: (merged) => `merging answers, level ${this.levels}, ${merged + 1} of ${groups.length}: `,
      };
      this.sent = 0;
      this.done = this.level.results.filter(Boolean).length;
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      this.failure = error;
    } finally {
      this.isMerging = false;
    }
  }

  private count(results: readonly (RowResult | undefined)[]): void {
    for (const { usage } of results.flatMap((result) => (result ? [result] : []))) {
      this.usage.promptTokens += usage.promptTokens;
      this.usage.completionTokens += usage.completionTokens;
    }
  }
}

function uncounted(result: RowResult): RowResult {
  return { ...result, usage: { promptTokens: 0, completionTokens: 0 } };
}

function chunkOf(
  { id: _id, index: _index, carry: _carry, sample: _sample, truncated: _truncated, ...answer }: RowResult,
  { start, end }: { readonly start: number; readonly end: number },
): RowChunk {
  return { start, end, ...answer };
}
