import { once } from 'node:events';
import { createServer, request as ask, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';

/** A proxy on the loopback interface: tunnels (CONNECT) and plain requests, for whoever gives the right password. */
export class StubProxy implements AsyncDisposable {
  /** Hosts that were asked for through it. */
  readonly hosts: string[] = [];
  readonly #sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    /** `user:password`; undefined: anybody may. */
    private readonly credentials: string | undefined,
  ) {
    server.on('connection', (socket) => this.#sockets.add(socket));
    server.on('connect', (request, socket, head) => {
      this.hosts.push(request.url ?? '');
      if (!this.#lets(request.headers['proxy-authorization'])) {
        socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
        return;
      }
      const [host, port] = (request.url ?? '').split(':');
      const through = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        through.write(head);
        through.pipe(socket).pipe(through);
      });
      this.#sockets.add(through);
      for (const end of [socket, through]) end.on('error', () => through.destroy());
    });
    server.on('request', (request, response) => {
      const url = new URL(request.url ?? '/', 'http://nowhere');
      this.hosts.push(url.host);
      if (!this.#lets(request.headers['proxy-authorization'])) {
        response.writeHead(407).end();
        return;
      }
      const { 'proxy-authorization': _, ...headers } = request.headers;
      ask(url, { headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      }).end();
    });
  }

  static async start(credentials?: string): Promise<StubProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new StubProxy(server, credentials);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #lets(header: string | undefined): boolean {
    return this.credentials === undefined || header === `Basic ${Buffer.from(this.credentials).toString('base64')}`;
  }
}
