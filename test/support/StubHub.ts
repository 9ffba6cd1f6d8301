import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What goes wrong with one answer. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly code?: string; readonly retryAfter?: number }
  /** The connection ends after so many bytes of the body. */
  | { readonly kind: 'cut'; readonly after: number; readonly milliseconds?: number }
  /** A byte is another one. */
  | { readonly kind: 'flip'; readonly at: number }
  /** Too few bytes, too many, or all of them where a part was asked for, all said to be right. */
  | { readonly kind: 'short' }
  | { readonly kind: 'long' }
  | { readonly kind: 'whole' }
  /** A part that begins elsewhere. */
  | { readonly kind: 'shifted' }
  /** Nothing comes. */
  | { readonly kind: 'silent' }
  /** The body stops in the middle, and the connection stays. */
  | { readonly kind: 'stall'; readonly after: number }
  /** A page where a file should be. */
  | { readonly kind: 'html' };

interface StubFile {
  readonly bytes: Buffer;
  readonly lfs: boolean;
}

/**
 * A Hugging Face hub on the loopback interface: one repository, its list, its files, which it serves from a second host
 * by redirection as the real one does. It goes wrong as it is told, and ends by itself after two minutes.
 */
export class StubHub implements AsyncDisposable {
  readonly files = new Map<string, StubFile>();
  /** Requests in order: `GET /path bytes=1-`, of both hosts. */
  readonly requests: string[] = [];
  /** Tokens that each host was given. */
  readonly tokens = { hub: new Set<string>(), files: new Set<string>() };
  commit = 'c'.repeat(40);
  /** For the next answers with a file's bytes, in order. */
  readonly faults: Fault[] = [];
  /** For every answer of the hub, by the path that it begins with. */
  readonly refusals = new Map<string, Fault & { readonly kind: 'status' }>();
  /** More entries of the list, which are not to be trusted. */
  readonly entries: unknown[] = [];
  /** What stands in the list instead of a file's true hash or size. */
  readonly lies = new Map<string, Readonly<Record<string, unknown>>>();
  /** Called with the first byte that is asked for, before a file is served. */
  onFile: (first: number) => void = () => undefined;
  /** Where the list goes on. */
  next: string | undefined;
  listing: string | undefined;

  readonly endpoint: string;

  private constructor(
    readonly repo: string,
    private readonly hub: Server,
    private readonly content: Server,
  ) {
    this.endpoint = addressOf(hub);
  }

  static async start(repo = 'someone/tiny'): Promise<StubHub> {
    const servers = [createServer(), createServer()] as const;
    for (const server of servers) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    const stub = new StubHub(repo, ...servers);
    servers[0].on('request', (request: IncomingMessage, response: ServerResponse) => stub.#answer(request, response));
    servers[1].on('request', (request: IncomingMessage, response: ServerResponse) => stub.#serve(request, response));
    const end = setTimeout(() => void stub[Symbol.asyncDispose](), 600_000);
    end.unref();
    servers[0].on('close', () => clearTimeout(end));
    return stub;
  }

  add(path: string, bytes: Buffer, lfs = true): void {
    this.files.set(path, { bytes, lfs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      [this.hub, this.content].map(async (server) => {
        if (!server.listening) return;
        const closed = once(server, 'close');
        server.close();
        server.closeAllConnections();
        await closed;
      }),
    );
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', this.endpoint);
    const path = decodeURIComponent(url.pathname);
    this.requests.push(`${request.method ?? ''} ${path} ${request.headers.range ?? ''}`.trim());
    if (request.headers.authorization !== undefined) this.tokens.hub.add(request.headers.authorization);
    const refusal = [...this.refusals].find(([start]) => path.startsWith(start))?.[1];
    if (refusal !== undefined) {
      refuse(response, refusal);
      return;
    }
    if (path.startsWith(`/api/models/${this.repo}/revision/`)) {
      const revision = path.split('/revision/')[1];
      if (revision !== 'main' && revision !== this.commit)
        refuse(response, { kind: 'status', status: 404, code: 'RevisionNotFound' });
      else
        json(response, {
          _id: '1',
          id: this.repo,
          sha: this.commit,
          private: false,
          gated: false,
          downloads: 0,
          likes: 0,
          lastModified: '2026-01-01T00:00:00.000Z',
        });
    } else if (path === `/api/models/${this.repo}/tree/${this.commit}`) {
      if (this.next !== undefined) response.setHeader('Link', `<${this.next}>; rel="next"`);
      if (this.listing !== undefined) response.setHeader('content-type', 'application/json').end(this.listing);
      else json(response, [...this.#list(), ...this.entries]);
    } else if (path.startsWith(`/${this.repo}/resolve/${this.commit}/`)) {
      const file = path.slice(`/${this.repo}/resolve/${this.commit}/`.length);
      if (this.files.has(file))
        response.writeHead(302, { location: `${addressOf(this.content)}/${encodeURIComponent(file)}` }).end();
      else refuse(response, { kind: 'status', status: 404, code: 'EntryNotFound' });
    } else refuse(response, { kind: 'status', status: 404, code: 'RepoNotFound' });
  }

  #list(): object[] {
    return [...this.files].map(([path, { bytes, lfs }]) => {
      const oid = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return {
        type: 'file',
        path,
        size: bytes.length,
        oid,
        ...(lfs && { lfs: { oid: sha256, size: bytes.length, pointerSize: 130 } }),
        ...this.lies.get(path),
      };
    });
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent((request.url ?? '').slice(1));
    this.requests.push(`GET file ${path} ${request.headers.range ?? ''}`.trim());
    if (request.headers.authorization !== undefined) this.tokens.files.add(request.headers.authorization);
    const { bytes } = this.files.get(path) ?? { bytes: Buffer.alloc(0) };
    const asked = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    this.onFile(asked);
    const fault = this.faults.shift();
    if (fault?.kind === 'silent') return;
    if (fault?.kind === 'status' || fault?.kind === 'html') {
      if (fault.kind === 'status') refuse(response, fault);
      else response.writeHead(200, { 'content-type': 'text/html' }).end('<html>please sign in</html>');
      return;
    }
    const from = fault?.kind === 'whole' ? 0 : fault?.kind === 'shifted' ? Math.floor(asked / 2) : asked;
    let body = Buffer.from(bytes.subarray(from));
    if (fault?.kind === 'flip' && body.length > 0)
      body[fault.at % body.length] = (body[fault.at % body.length] ?? 0) ^ 1;
    if (fault?.kind === 'short') body = body.subarray(0, Math.floor(body.length / 2));
    if (fault?.kind === 'long') body = Buffer.concat([body, Buffer.from('more')]);
    const part = request.headers.range !== undefined && fault?.kind !== 'whole';
    response.writeHead(part ? 206 : 200, {
      ...(fault?.kind === 'short' || fault?.kind === 'long' ? {} : { 'content-length': body.length }),
      ...(part && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
    });
    if (fault?.kind === 'cut' || fault?.kind === 'stall')
      response.write(
        body.subarray(0, fault.after % (body.length + 1)),
        () => fault.kind === 'cut' && setTimeout(() => response.socket?.end(), fault.milliseconds ?? 2),
      );
    else response.end(body);
  }
}

function addressOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function refuse(response: ServerResponse, { status, code, retryAfter }: Fault & { readonly kind: 'status' }): void {
  response
    .writeHead(status, {
      ...(code !== undefined && { 'x-error-code': code }),
      ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
      'content-type': 'application/json',
    })
    .end('{"error":"no"}');
}
