import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A port that forwards to another one, and can do to a connection what networks do. */
export class Forwarder {
  private readonly sockets = new Set<Socket>();
  private holding = false;
  /** The byte, of all that go forth, that is changed. */
  private changeAt: number | undefined;
  private forwarded = 0;

  private constructor(
    private readonly server: Server,
    readonly address: string,
  ) {}

  static async open(target: string): Promise<Forwarder> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const bound = server.address();
    if (bound === null || typeof bound !== 'object') throw new Error('not bound');
    const forwarder = new Forwarder(server, `127.0.0.1:${bound.port}`);
    server.on('connection', (from: Socket) => {
      forwarder.join(from, connect({ host: '127.0.0.1', port: Number(target.split(':')[1]) }));
    });
    return forwarder;
  }

  /** Every connection breaks. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /** Nothing more gets through, and nobody is told. */
  hold(): void {
    this.holding = true;
  }

  /** What is said from now on gets through. What was held is lost, so connections break, as they do when time is up. */
  heal(): void {
    this.holding = false;
    this.cut();
  }

  /** A byte of those that go forth from now on gets through as another. */
  change(at: number): void {
    this.forwarded = 0;
    this.changeAt = at;
  }

  async close(): Promise<void> {
    this.cut();
    this.server.close();
    await once(this.server, 'close');
  }

  private join(from: Socket, to: Socket): void {
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      this.sockets.add(one);
      one.on('error', () => undefined);
      one.on('data', (bytes: Buffer) => {
        if (this.holding) return;
        if (one === from) this.harm(bytes);
        other.write(bytes);
      });
      one.on('close', () => {
        this.sockets.delete(one);
        if (!this.holding) other.end();
      });
    }
  }

  private harm(bytes: Buffer): void {
    const at = (this.changeAt ?? -1) - this.forwarded;
    this.forwarded += bytes.length;
    const byte = bytes[at];
    if (byte === undefined) return;
    bytes[at] = byte ^ 0x55;
    this.changeAt = undefined;
  }
}
