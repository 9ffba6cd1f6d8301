import type { LogLevel } from './Log.js';

/** The context a command gets beside its flags. */
export interface CommandContext {
  /** Fires on the first SIGINT, SIGTERM or SIGHUP. */
  readonly signal: AbortSignal;
  /**
   * Ends the command after so much time as SIGTERM does: what is finished is written.
   * @param why for people: what ends it
   */
  endAfter(milliseconds: number, why: string): void;
  /** Does work that keeps the event loop for seconds and leaves nothing: a signal ends the process meanwhile. */
  endingAtOnce<T>(work: () => T | Promise<T>): Promise<T>;
  /** Set by a command that ends without an exception but not quite well. */
  exitCode: number;
  /** Writes words for people: to stderr, with an LF. */
  say(text: string, level?: LogLevel): void;
  /**
   * Writes a result to stdout and waits until it is taken.
   * @param exactly a path for programs, say: what a terminal would act on is shown on a terminal alone
   * @throws JobFileError
   */
  print(text: string, exactly?: boolean): Promise<void>;
}
