import { shortened } from '../../arguments/found.js';
import type { FailedRow, FailedRows } from './WatchSource.js';

const MOST_ROWS = 50;
const MOST_CODES = 50;
const MOST_CHARACTERS = { id: 120, code: 60, message: 400 };

/** The rows that failed last: so many, and so much of each, whatever they say. */
export class FailedRowLog {
  /** Changes with each row that is added. */
  version = 0;
  private readonly rows: FailedRows['rows'][number][] = [];
  private readonly counts = new Map<string, number>();

  add({ id, error }: FailedRow): void {
    this.version++;
    const code = shortened(error.code, MOST_CHARACTERS.code);
    const counted = this.counts.has(code) || this.counts.size < MOST_CODES ? code : 'other';
    this.counts.set(counted, (this.counts.get(counted) ?? 0) + 1);
    this.rows.unshift({
      id: shortened(String(id), MOST_CHARACTERS.id),
      code,
      message: shortened(error.message, MOST_CHARACTERS.message),
      at: Date.now(),
    });
    if (this.rows.length > MOST_ROWS) this.rows.pop();
  }

  read(): FailedRows {
    return { rows: [...this.rows], counts: [...this.counts] };
  }
}
