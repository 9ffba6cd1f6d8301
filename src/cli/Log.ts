import { visible } from './table.js';

export const LOG_FORMATS = ['text', 'json'] as const;

/** How words for people are written: with the time before each line, or as a JSON document a line. */
export type LogFormat = (typeof LOG_FORMATS)[number];

export type LogLevel = 'info' | 'error';

/** Standard error, on which words are lines of a log once somebody has asked for such. */
export class Log {
  /** Default: words alone. */
  format: LogFormat | undefined;

  constructor(
    private readonly stream: Pick<NodeJS.WritableStream, 'write'>,
    private readonly now: () => Date = () => new Date(),
  ) {}

  /** @param more what a program may want of it, beside the words */
  say(message: string, level: LogLevel = 'info', more: object = {}): void {
    this.stream.write(this.#lines(message, level, more));
  }

  #lines(message: string, level: LogLevel, more: object): string {
    if (this.format === undefined) return `${visible(message)}\n`;
    const time = this.now().toISOString();
    if (this.format === 'json') return `${visible(JSON.stringify({ time, level, message, ...more }))}\n`;
    return message
      .split('\n')
      .map((line) => `${time} ${visible(line)}\n`)
      .join('');
  }
}

/** The log of this process: there is one standard error. */
export const log = new Log(process.stderr);
