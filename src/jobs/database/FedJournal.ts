import type { RowSink } from '../../files/StreamWriter.js';
import type { TableFeed } from './TableFeed.js';

/** A journal whose lines go on to a table: at once for who writes it, whatever the database does meanwhile. */
export class FedJournal implements RowSink {
  private constructor(
    private readonly journal: RowSink,
    private readonly feed: TableFeed,
  ) {}

  /** @throws DatabaseError, UsageError; the journal is closed then */
  static async begin(journal: RowSink, feed: TableFeed): Promise<FedJournal> {
    try {
      await feed.begin();
    } catch (error) {
      await journal.close();
      throw error;
    }
    return new FedJournal(journal, feed);
  }

  async write(line: string | Uint8Array): Promise<void> {
    await this.journal.write(line);
    this.feed.poke();
  }

  async close(): Promise<void> {
    try {
      await this.journal.close();
    } finally {
      await this.feed.finish();
    }
  }
}
