import type { Batch, RowId } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';

interface Waiting {
  readonly batch: Batch;
  readonly resolve: (tokens: ReadonlyMap<RowId, number>) => void;
}

/** Tokens that the model's last layers sample elsewhere, on their way back to the first one. */
export class SampledTokens {
  /** For each row, positions whose tokens are to come, or have come and were not taken yet. */
  private readonly due = new Map<RowId, Map<number, number | undefined>>();
  private readonly waiting = new Set<Waiting>();

  /** A batch has set out: its rows that sample will have a token more. */
  expect({ rows }: Batch): void {
    for (const { row, firstPosition, tokens, head } of rows) {
      if (head !== 'sample') continue;
      let positions = this.due.get(row);
      if (!positions) this.due.set(row, (positions = new Map<number, number | undefined>()));
      positions.set(firstPosition + tokens, undefined);
    }
  }

  /** Takes in the tokens that were found for a batch. */
  returned({ rows }: Batch, { sampled }: HeadOutput): void {
    for (const { row, firstPosition, tokens } of rows) {
      const token = sampled.get(row)?.token;
      if (token !== undefined) this.due.get(row)?.set(firstPosition + tokens, token);
    }
    for (const each of this.waiting) this.tryTake(each);
  }

  /** The tokens that a batch begins with, once all of them are there. */
  take(batch: Batch): Promise<ReadonlyMap<RowId, number>> {
    return new Promise((resolve) => {
      this.tryTake({ batch, resolve });
    });
  }

  /** The row is over. */
  forget(row: RowId): void {
    this.due.delete(row);
  }

  private tryTake(waiting: Waiting): void {
    const tokens = new Map<RowId, number>();
    for (const { row, firstPosition } of waiting.batch.rows) {
      const positions = this.due.get(row);
      if (!positions?.has(firstPosition)) continue;
      const token = positions.get(firstPosition);
      if (token === undefined) {
        this.waiting.add(waiting);
        return;
      }
      tokens.set(row, token);
    }
    for (const { row, firstPosition } of waiting.batch.rows) this.due.get(row)?.delete(firstPosition);
    this.waiting.delete(waiting);
    waiting.resolve(tokens);
  }
}
