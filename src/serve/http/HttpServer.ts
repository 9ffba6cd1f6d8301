import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { ByteLedger } from '../../collections/ByteLedger.js';
import { TurnQueue } from '../../collections/TurnQueue.js';
import { UsageError } from '../../errors/UsageError.js';
import { describeFileError } from '../../files/fileErrors.js';
import { ATTRIBUTES } from '../../telemetry/names.js';
import { type Span, startSpan } from '../../telemetry/spans.js';
import type { ServeLimits } from '../ServeOptions.js';
import { ApiError, apiErrorOf, sendJson } from './ApiError.js';
import { hasBody } from './bodies.js';
import { ClientGone } from './EventStream.js';
import { Exchange } from './Exchange.js';
import { countOf, type Gate } from './Gate.js';

/** A route, and its answer. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The pattern of a path; what its groups match are the exchange's `params`. */
  readonly path: RegExp;
  /** Its name in metrics. */
  readonly name: string;
  /** True where it needs no key. */
  readonly open?: boolean;
  answer(exchange: Exchange): Promise<void> | void;
}

/** Whom a server tells of what it did. */
export interface ServerWatch {
  answered(route: string, status: number, seconds: number): void;
  failed(route: string, error: unknown): void;
}

const MAX_HEADER_BYTES = 16 * 2 ** 10;
const MOST_HEADERS = 100;
/** How long, and how much, is still read of a request that was refused before its end: so that the refusal is read. */
const LINGER_MILLISECONDS = 500;
const LINGER_BYTES = 2 ** 20;

const REQUEST_ID_BYTES = 12;
const COMMON_HEADERS = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

/** Routes over HTTP/1.1, on Node's own server: whoever is let in by the gate is answered, all others are refused. */
export class HttpServer {
  readonly #server: Server;
  readonly #exchanges = new Set<Exchange>();
  readonly #ledger: ByteLedger;
  readonly #turns = new TurnQueue();
  #stopping = false;

  constructor(
    private readonly routes: readonly Route[],
    private readonly gate: Gate,
    private readonly limits: ServeLimits,
    private readonly watch: ServerWatch,
  ) {
    const { headerSeconds, uploadSeconds, bodySeconds, idleSeconds, connections, heldBytes } = limits;
    this.#ledger = new ByteLedger(heldBytes);
    this.#server = createServer({
      headersTimeout: headerSeconds * 1000,
      requestTimeout: Math.max(headerSeconds, uploadSeconds, bodySeconds) * 1000,
      keepAliveTimeout: idleSeconds * 1000,
      connectionsCheckingInterval: Math.min(1000, headerSeconds * 1000),
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: true,
      insecureHTTPParser: false,
      noDelay: true,
    });
    this.#server.maxHeadersCount = MOST_HEADERS;
    this.#server.maxConnections = connections;
    const answer = (request: IncomingMessage, response: ServerResponse): void => void this.#answer(request, response);
    this.#server.on('request', answer).on('checkContinue', answer).on('clientError', refuseUnread);
    this.#server.on('connect', (_request, socket: Socket) => refuseUnread(new Error('a tunnel'), socket));
  }

  get openExchanges(): number {
    return this.#exchanges.size;
  }

  /** @returns where it listens, such as `http://127.0.0.1:8080` @throws UsageError */
  async listen(host: string, port: number): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error): void => {
        reject(
          new UsageError(`host: found ${host} and port ${port}, where nobody can listen: ${describeFileError(error)}`),
        );
      };
      this.#server.once('error', failed);
      this.#server.listen(port, host, () => {
        this.#server.off('error', failed);
        // Of a connection that cannot be taken, as when the process has too many files open, nobody is to be told.
        this.#server.on('error', () => undefined);
        resolve();
      });
    });
    const { address, family, port: at } = this.#server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${at}`;
  }

  /**
   * Takes no more requests, waits until those that are open have been answered, and ends those that take longer.
   * @param seconds how long they have
   */
  async close(seconds: number): Promise<void> {
    this.#stopping = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => {
      for (const exchange of this.#exchanges) exchange.end(stopping());
      // Who does not take what is sent is not waited for.
      setTimeout(() => this.#server.closeAllConnections(), LINGER_MILLISECONDS).unref();
    }, seconds * 1000);
    await closed;
    clearTimeout(timer);
  }

  #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const span = startSpan(
      () => method,
      () => ({ [ATTRIBUTES.method]: method, [ATTRIBUTES.path]: url.split('?', 1)[0], [ATTRIBUTES.scheme]: 'http' }),
      headers,
    );
    return span ? span.run(() => this.#answerIn(span, request, response)) : this.#answerIn(span, request, response);
  }

  async #answerIn(span: Span | undefined, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const begun = performance.now();
    let name = 'none';
    let failure: unknown;
    // Whoever goes away in the middle of what is sent or asked is no failure of ours.
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    response.once('close', () => {
      this.watch.answered(name, response.statusCode, (performance.now() - begun) / 1000);
      span?.set({ [ATTRIBUTES.status]: response.statusCode });
      span?.end(failure);
    });
    let exchange: Exchange | undefined;
    try {
      for (const [header, value] of Object.entries(COMMON_HEADERS)) response.setHeader(header, value);
      // Clients tell of it in their errors.
      response.setHeader('x-request-id', `req_${randomBytes(REQUEST_ID_BYTES).toString('hex')}`);
      this.gate.checkSource(request);
      const { origin } = request.headers;
      if (origin !== undefined && this.gate.isForeign(origin)) allowReading(response, origin);
      if (request.method === 'OPTIONS' && origin !== undefined) {
        answerPreflight(request, response);
        return;
      }
      const { route, params, query } = this.#routeOf(request);
      name = route.name;
      span?.rename(`${request.method} ${name}`);
      span?.set({ [ATTRIBUTES.route]: name });
      if (route.open !== true) this.gate.checkKey(request);
      if (this.#stopping) throw stopping();
      if (route.method !== 'POST' && hasBody(request))
        throw new ApiError(400, `found a body, expected none of ${route.method}`, { code: 'unexpected_body' });
      exchange = new Exchange(request, response, params, query, this.limits, this.#ledger, this.#turns);
      this.#exchanges.add(exchange);
      await route.answer(exchange);
    } catch (error) {
      const reason = exchange?.reasonOf(error) ?? error;
      if (reason instanceof ClientGone || response.destroyed) return;
      const told = apiErrorOf(reason);
      if (told.status >= 500) failure = reason;
      if (told.status >= 500 && told.status !== 503) this.watch.failed(name, reason);
      await refuse(request, response, told);
    } finally {
      if (exchange) this.#exchanges.delete(exchange);
      giveUpUntaken(response, this.limits.stallSeconds);
      if (this.#stopping) this.#server.closeIdleConnections();
    }
  }

  /** @throws ApiError for what is nowhere, or not answered by that method */
  #routeOf(request: IncomingMessage): {
    readonly route: Route;
    readonly params: readonly string[];
    readonly query: URLSearchParams;
  } {
    const { url = '', method } = request;
    if (!url.startsWith('/') || countOf(request, 'content-length') > 1 || countOf(request, 'authorization') > 1)
      throw new ApiError(400, 'found a request that is none of ours, expected a path and each header once');
    const at = url.indexOf('?');
    const path = at < 0 ? url : url.slice(0, at);
    const found = this.routes.filter((route) => route.path.test(path));
    const route =
      found.find((each) => each.method === method) ??
      (method === 'HEAD' ? found.find((each) => each.method === 'GET') : undefined);
    if (!route) {
      if (found.length === 0) throw new ApiError(404, 'there is nothing at this path', { code: 'unknown_url' });
      const allowed = [...new Set(found.map((each) => each.method))].join(', ');
      throw new ApiError(405, `expected ${allowed}`, { code: 'method_not_allowed', headers: { allow: allowed } });
    }
    const params = (route.path.exec(path) ?? []).slice(1).map((part) => decoded(part));
    return { route, params, query: new URLSearchParams(at < 0 ? '' : url.slice(at + 1)) };
  }
}

/** An answer that is whole and that nobody takes holds its connection no longer than this. */
function giveUpUntaken(response: ServerResponse, seconds: number): void {
  if (response.writableFinished || response.destroyed) return;
  const timer = setTimeout(() => response.destroy(), seconds * 1000);
  timer.unref();
  for (const end of ['finish', 'close']) response.once(end, () => clearTimeout(timer));
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ApiError(400, 'found a path with a % that is none, expected one that is encoded');
  }
}

function stopping(): ApiError {
  return new ApiError(503, 'the server is being stopped', {
    code: 'server_stopping',
    headers: { 'retry-after': '10', connection: 'close' },
  });
}

function allowReading(response: ServerResponse, origin: string): void {
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('vary', 'origin');
}

/** A page that may use the server asks first whether it may, with whatever headers its client sends. */
function answerPreflight({ headers }: IncomingMessage, response: ServerResponse): void {
  const wanted = headers['access-control-request-headers'];
  response.writeHead(204, {
    'access-control-allow-methods': 'GET, POST, DELETE',
    ...(wanted !== undefined && { 'access-control-allow-headers': wanted }),
    'access-control-max-age': '600',
  });
  response.end();
}

/**
 * Answers with an error. Where the request has more to come, the connection ends after it, but not before the client
 * has had a chance to read why.
 */
async function refuse(request: IncomingMessage, response: ServerResponse, error: ApiError): Promise<void> {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  if (request.complete || !hasBody(request)) {
    sendJson(response, error.status, error.body, error.headers);
    return;
  }
  const text = `${JSON.stringify(error.body)}\n`;
  response.writeHead(error.status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    ...error.headers,
    connection: 'close',
  });
  response.write(text);
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const timer = setTimeout(resolve, LINGER_MILLISECONDS);
    request.on('data', (part: Buffer) => {
      bytes += part.length;
      if (bytes > LINGER_BYTES) resolve();
    });
    for (const end of ['end', 'close', 'error']) request.once(end, () => resolve());
    response.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    request.resume();
  });
  response.end();
  request.destroy();
}

const UNREAD: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** Answers what is no HTTP, or does not come in time. */
function refuseUnread(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = UNREAD[error.code ?? ''] ?? '400 Bad Request';
  const body = `${JSON.stringify({
    error: {
      message: `found what is no request: ${status.slice(4)}`,
      type: 'invalid_request_error',
      param: null,
      code: null,
    },
  })}\n`;
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  setTimeout(() => socket.destroy(), LINGER_MILLISECONDS).unref();
}
