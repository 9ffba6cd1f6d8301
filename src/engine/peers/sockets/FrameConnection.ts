import type { Duplex } from 'node:stream';
import { PeerError } from '../../../errors/engineErrors.js';
import { checkFrame, frameOf, HEADER_BYTES, readHeader, type FrameLimits, type FrameName } from './frames.js';
import { PREAMBLE_BYTES, checkPreamble, preamble } from './preamble.js';

export interface Frame {
  readonly name: FrameName;
  /** Memory of its own, or what its reader gave. */
  readonly payload: Buffer;
}

export interface ConnectionTimes {
  /** Somebody who says nothing for so long is gone. */
  readonly silenceSeconds: number;
}

/** Data that came and nobody has asked for: with more of it no more is read. */
const MOST_HELD_BYTES = 2 ** 16;

/** Data that is written while nobody takes it is kept in memory: of signs of life only so much. */
const MOST_UNTAKEN_BYTES = 2 ** 16;

/** So often each side says that it is there, however long the other one's patience is. */
const PING_MILLISECONDS = 250;

/**
 * A socket as frames. It is read when somebody asks for a frame, so what is not asked for stays with the sender; says
 * now and then that this side is there; and gives up a peer that is waited for and says nothing.
 */
export class FrameConnection {
  private failure: PeerError | undefined;
  private opened = false;
  private ended = false;
  private reads = 0;
  private writes = 0;
  private wroteAt = performance.now();
  private heardAt = performance.now();
  private tickedAt = performance.now();
  /** Since when a frame that is no ping has been waited for; undefined while nobody reads. */
  private waitingSince: number | undefined;
  private wake: () => void = () => undefined;
  /** Data that came and nobody has asked for, piece by piece: put together they would be copied once more. */
  private readonly held: Buffer[] = [];
  private heldBytes = 0;
  private readonly timer: NodeJS.Timeout;

  /**
   * @param peer who it is, in words
   * @param overdue why the peer is given up although it speaks, if it is; told since when a frame has been waited for,
   * if one is, and the milliseconds that this process was not given since it was asked last
   */
  constructor(
    private readonly socket: Duplex,
    readonly peer: string,
    private readonly times: ConnectionTimes,
    private readonly overdue: (waitingSince: number | undefined, missed: number) => string | undefined = () =>
      undefined,
  ) {
    const woken = (): void => {
      this.wake();
    };
    socket.on('data', (chunk: Buffer) => {
      this.held.push(chunk);
      this.heldBytes += chunk.length;
      if (this.heldBytes >= MOST_HELD_BYTES) socket.pause();
      woken();
    });
    socket.on('end', () => {
      this.ended = true;
      woken();
    });
    socket.on('error', (error) => {
      this.destroy(new PeerError(`${peer}: the connection has failed: ${error.message}`, { cause: error }));
    });
    socket.on('close', () => {
      clearInterval(this.timer);
      this.ended = true;
      woken();
    });
    this.timer = setInterval(() => {
      this.tick();
    }, PING_MILLISECONDS);
    this.timer.unref();
  }

  /** The bytes that were written and are here because the peer, or the system, has not taken them. */
  get untakenBytes(): number {
    return this.socket.writableLength;
  }

  /** Tells which protocol is spoken here, and hears the same. @throws PeerError */
  async open(): Promise<void> {
    this.socket.write(preamble());
    const bytes = Buffer.alloc(PREAMBLE_BYTES);
    this.waitingSince = performance.now();
    const came = await this.fill(bytes).finally(() => (this.waitingSince = undefined));
    if (!came)
      throw new PeerError(
        `${this.peer}: found a connection that was closed at once, expected an engine: perhaps it asks for a shared key or certificates`,
      );
    checkPreamble(bytes, this.peer);
    this.opened = true;
  }

  /**
   * The next frame that is no ping; undefined when the peer has closed the connection.
   *
   * @param limits frames that may come, and how large
   * @param memoryFor gives memory for a payload. Default: new memory
   * @throws PeerError for what may not come, and a connection that fails or falls silent
   */
  async read(
    limits: FrameLimits,
    memoryFor: (name: FrameName, bytes: number) => Buffer = (_, bytes) => Buffer.allocUnsafeSlow(bytes),
  ): Promise<Frame | undefined> {
    const header = Buffer.alloc(HEADER_BYTES);
    // Signs of life, and the beginning of a frame, are not what is waited for.
    this.waitingSince = performance.now();
    try {
      for (;;) {
        if (!(await this.fill(header))) return undefined;
        const { name, length } = readHeader(header, this.reads++, limits);
        // The numbers in it are looked at where they are, by whoever gets them.
        const payload = memoryFor(name, length);
        if (!(await this.fill(payload))) throw this.gone();
        checkFrame(header, payload);
        if (name !== 'ping') return { name, payload };
      }
    } finally {
      this.waitingSince = undefined;
    }
  }

  /** Resolves when the system has taken it. @throws (rejects) PeerError */
  write(name: FrameName, payload: readonly Uint8Array[] = []): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    if (this.socket.destroyed || this.socket.writableEnded) return Promise.reject(this.gone());
    this.wroteAt = performance.now();
    return new Promise((resolve, reject) => {
      this.socket.cork();
      const pieces = frameOf(name, this.writes++, payload);
      const last = pieces.pop();
      for (const piece of pieces) this.socket.write(piece);
      this.socket.write(last, (error) => {
        if (error) reject(this.failure ?? this.gone());
        else resolve();
      });
      this.socket.uncork();
    });
  }

  /** Nothing more is written; what was is delivered, if the peer takes it in the time that it may be silent. */
  end(): void {
    this.socket.end();
    const timer = setTimeout(() => {
      this.destroy();
    }, this.times.silenceSeconds * 1000);
    timer.unref();
    this.socket.once('close', () => {
      clearTimeout(timer);
    });
  }

  /** Resolves once it has failed, also where nobody reads; never where it ends well. */
  failed(): Promise<PeerError> {
    return new Promise((resolve) => {
      this.socket.once('close', () => {
        if (this.failure) resolve(this.failure);
      });
    });
  }

  /** Rejects once the connection is over. */
  lost(): Promise<never> {
    return new Promise((_, reject) => {
      const over = (): void => {
        reject(this.gone());
      };
      if (this.socket.destroyed) over();
      else this.socket.once('close', over);
    });
  }

  /** At once. @param failure what reads and writes that are under way end with */
  destroy(failure?: PeerError): void {
    this.failure ??= failure;
    clearInterval(this.timer);
    this.socket.destroy();
    this.ended = true;
    this.wake();
  }

  private tick(): void {
    const now = performance.now();
    // In time that this process was not given, others may have spoken: it is read after this.
    const missed = Math.max(0, now - this.tickedAt - 2 * PING_MILLISECONDS);
    this.heardAt = Math.min(now, this.heardAt + missed);
    this.tickedAt = now;
    const { silenceSeconds } = this.times;
    const since = this.waitingSince;
    if (since !== undefined && now - Math.max(since, this.heardAt) > silenceSeconds * 1000) {
      this.destroy(new PeerError(`${this.peer}: found nothing said for ${silenceSeconds} s, expected a sign of life`));
      return;
    }
    const why = this.overdue(since, missed);
    if (why !== undefined) {
      this.destroy(new PeerError(`${this.peer}: ${why}`));
      return;
    }
    const { writableEnded, writableLength } = this.socket;
    // Who takes nothing needs no more of them.
    if (now - this.wroteAt >= PING_MILLISECONDS && !writableEnded && this.opened && writableLength < MOST_UNTAKEN_BYTES)
      this.write('ping').catch(() => undefined);
  }

  /** False where the connection has ended before the first byte. */
  private async fill(target: Buffer): Promise<boolean> {
    let filled = 0;
    while (filled < target.length) {
      if (this.failure) throw this.failure;
      const [chunk] = this.held;
      if (chunk) {
        this.heardAt = performance.now();
        const taken = chunk.copy(target, filled);
        filled += taken;
        this.heldBytes -= taken;
        if (taken === chunk.length) this.held.shift();
        else this.held[0] = chunk.subarray(taken);
        if (this.heldBytes < MOST_HELD_BYTES && this.socket.isPaused()) this.socket.resume();
      } else if (this.ended) {
        if (filled === 0) return false;
        throw this.gone();
      } else await new Promise<void>((resolve) => (this.wake = resolve));
    }
    return true;
  }

  private gone(): PeerError {
    return this.failure ?? new PeerError(`${this.peer}: the connection has been closed`);
  }
}
