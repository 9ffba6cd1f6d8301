/** How a file of separated values is written. */
export interface CsvDialect {
  readonly delimiter: string;
  readonly lineEnd: string;
  readonly byteOrderMark: boolean;
}

/** What the rows of a table have in common. */
export interface Table {
  readonly columns: readonly string[];
  readonly dialect?: CsvDialect;
}
