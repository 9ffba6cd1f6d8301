import type { ServerResponse } from 'node:http';

/** A sign of life, so that nobody between gives up a connection on which a row waits for its place. */
const PING_SECONDS = 15;

/**
 * An answer as server-sent events. Whoever writes waits until the client has taken what there is; a client that takes
 * nothing for too long, or goes away, ends it.
 */
export class EventStream {
  readonly #ping: NodeJS.Timeout;

  /** Begins the answer. */
  constructor(
    private readonly response: ServerResponse,
    private readonly stallSeconds: number,
  ) {
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
    });
    response.flushHeaders();
    this.#ping = setInterval(() => {
      if (!response.writableNeedDrain && response.writable) response.write(': still here\n\n');
    }, PING_SECONDS * 1000);
    this.#ping.unref();
    response.once('close', () => {
      clearInterval(this.#ping);
    });
  }

  send(data: object | '[DONE]'): Promise<void> {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    return written(this.response, `data: ${text}\n\n`, this.stallSeconds);
  }

  end(): void {
    clearInterval(this.#ping);
    this.response.end();
  }
}

/**
 * Writes, and waits until there is room for more.
 * @throws an error where the client is gone, or is given up: it has taken nothing for so long
 */
export function written(response: ServerResponse, chunk: string | Uint8Array, stallSeconds: number): Promise<void> {
  if (response.destroyed || response.closed) return Promise.reject(new ClientGone());
  if (response.write(chunk)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const end = (act: () => void) => (): void => {
      clearTimeout(timer);
      response.off('drain', taken).off('close', gone);
      act();
    };
    const taken = end(resolve);
    const gone = end(() => {
      reject(new ClientGone());
    });
    const timer = setTimeout(() => response.destroy(), stallSeconds * 1000);
    response.on('drain', taken).on('close', gone);
  });
}

/** Whoever asked is not there any more: nobody is to be told. */
export class ClientGone extends Error {
  constructor() {
    super('the client has closed its connection');
  }
}
