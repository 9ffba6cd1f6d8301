/** Where lines go, in the order of the calls. */
export interface RowSink {
  /**
   * Resolves when the sink takes more; what it holds until then is bounded.
   * @param line with its LF; or, where what is written has no lines, a piece of it
   * @throws JobFileError, also for an earlier line
   */
  write(line: string | Uint8Array): Promise<void>;
  /** Waits until everything is written. @throws JobFileError */
  close(): Promise<void>;
}
