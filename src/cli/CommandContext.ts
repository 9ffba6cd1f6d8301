/** What a command gets beside its flags. */
export interface CommandContext {
  /** Fires on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Set by a command that ends without an exception but not quite well. */
  exitCode: number;
  /** Writes words for people: to stderr, with an LF. */
  say(text: string): void;
  /** Writes a result to stdout and waits until it is taken. @throws JobFileError */
  print(text: string): Promise<void>;
}
