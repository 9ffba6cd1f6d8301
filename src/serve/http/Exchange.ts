import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ByteLedger } from '../../collections/ByteLedger.js';
import type { TurnQueue } from '../../collections/TurnQueue.js';
import type { ServeLimits } from '../ServeOptions.js';
import { ApiError } from './ApiError.js';
import { bytesOfBody, checkBody, jsonOfBody, type JsonBody } from './bodies.js';
import { ClientGone } from './EventStream.js';

/** A request and its answer. */
export class Exchange {
  readonly #ending = new AbortController();
  readonly #account;
  #late: NodeJS.Timeout | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    /** The parts of the path where its route has a place for something, in order. */
    readonly params: readonly string[],
    readonly query: URLSearchParams,
    readonly limits: ServeLimits,
    ledger: ByteLedger,
    /** Many requests that come at once are read one by one, so that they hold up nothing else. */
    private readonly turns: TurnQueue,
  ) {
    this.#account = ledger.account();
    response.once('close', () => {
      clearTimeout(this.#late);
      this.#account.close();
      if (!response.writableFinished) this.end(new ClientGone());
    });
  }

  /** Fires when nobody waits for the answer any more, or it is not to be waited for. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Ends the work on the answer. @param reason what whoever asked is told, if they are there */
  end(reason: ApiError | ClientGone): void {
    this.#ending.abort(reason);
  }

  /** Says what an error means for this exchange: why it was ended, where it was. */
  reasonOf(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error;
  }

  /** From now on the answer has so long. */
  limitTime(): void {
    const { requestSeconds } = this.limits;
    this.#late = setTimeout(() => {
      this.end(new ApiError(504, `the answer was not there within ${requestSeconds} s`, { code: 'timeout' }));
    }, requestSeconds * 1000);
  }

  /** The JSON of the body. @throws ApiError */
  async json(): Promise<JsonBody> {
    const { bodyBytes: mostBytes, bodySeconds: seconds } = this.limits;
    checkBody(this.request, 'application/json', mostBytes);
    this.greet();
    const bytes = await bytesOfBody(this.request, { mostBytes, seconds, account: this.#account });
    await this.turns.next();
    return jsonOfBody(bytes, mostBytes);
  }

  /** Says that the body may come, to who waits for that. */
  greet(): void {
    if (this.request.headers.expect !== undefined) this.response.writeContinue();
  }
}
