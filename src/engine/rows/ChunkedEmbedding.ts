import type { Tokenizer } from '../../model/Tokenizer.js';
import type { EmbeddedChunk, EmbedOptions, EmbedResult } from '../../Results.js';
import type { RowIdentity } from '../../rows/identified.js';
import { partedRow, partInWords, type PartedRow } from './partedRow.js';
import type { RowSplitter, SplitPart, SplitRow } from './SplitRows.js';

/** Rows whose own text is embedded in parts. */
export function chunkedEmbeddings(options: EmbedOptions, tokenizer: Tokenizer): RowSplitter<EmbedResult> {
  return async (row) => new ChunkedEmbedding(await partedRow(row, options, tokenizer));
}

class ChunkedEmbedding implements SplitRow<EmbedResult> {
  private readonly results: EmbedResult[] = [];
  private sent = 0;
  private done = 0;
  private failed = Infinity;

  constructor(private readonly parted: PartedRow) {}

  next(): SplitPart<EmbedResult> | undefined {
    const { chunks, part } = this.parted;
    const chunk = chunks[this.sent];
    // After a failure nothing more is of use.
    if (!chunk || this.failed < Infinity) return undefined;
    const at = this.sent++;
    const taken = (result: EmbedResult): void => {
      this.results[at] = result;
      this.done++;
      if (result.error) this.failed = Math.min(this.failed, at);
    };
    return { row: part(chunk), taken };
  }

  isDone(underWay: number): boolean {
    return this.failed < Infinity ? underWay === 0 : this.done === this.parted.chunks.length;
  }

  result(identity: RowIdentity): EmbedResult {
    const { chunks } = this.parted;
    // The parts before one that failed are done, whatever came to its end first.
    const counted = this.results.slice(0, this.failed + 1);
    const usage = {
      promptTokens: counted.reduce((sum, each) => sum + each.usage.promptTokens, 0),
      completionTokens: 0,
    };
    const error = this.results[this.failed]?.error;
    if (error)
      return {
        ...identity,
        usage,
        error: { code: error.code, message: `${partInWords(chunks, this.failed)}${error.message}` },
      };
    return {
      ...identity,
      chunks: counted.map((result, at): EmbeddedChunk => {
        const { id: _id, index: _index, carry: _carry, ...embedded } = result;
        const { start, end } = chunks[at] ?? { start: 0, end: 0 };
        return { start, end, ...embedded };
      }),
      usage,
    };
  }
}
