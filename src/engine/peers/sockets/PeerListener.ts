import { once, setMaxListeners } from 'node:events';
import { createServer as createNetServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { PeerError } from '../../../errors/engineErrors.js';
import { errorOf } from '../../../errors/errorOf.js';
import { UsageError } from '../../../errors/UsageError.js';
import type { Peers } from '../PeerConnection.js';
import { dialPeer } from './dialPeer.js';
import type { EngineFacts } from './EngineFacts.js';
import { FrameConnection } from './FrameConnection.js';
import { answer, checkFit, greeted, refuse, welcomeOf, type Hello } from './handshake.js';
import { isLast } from './layerPlace.js';
import { messageLimits, mostUntakenBytes } from './messageLimits.js';
import { addressWords, parsePeerAddress, type PeerAddress } from './PeerAddress.js';
import { tlsOptions } from './PeerSecurity.js';
import { reach } from './reach.js';
import { SocketSink } from './SocketSink.js';
import { SocketSource } from './SocketSource.js';
import { checkHiddenStates, checkListenOptions, SOCKET_OPTIONS, type ListenOptions } from './SocketOptions.js';
import { StallWatch } from './StallWatch.js';
import { freeUnixSocket, ownUnixSocket } from './unixSocket.js';
import { within } from './within.js';

/** Connections at once, of runs and of those who have yet to say what they want. */
const MOST_CONNECTIONS = 256;
/** Seconds within which those who were asked have to answer; longer they are not waited for. */
const GREETING_SECONDS = 10;
/** Engines after an engine. */
const MOST_ROUTE = 64;

/** An engine that follows, as those who dial meet it. */
export interface ListeningEngine {
  readonly facts: EngineFacts;
  follow(peers: Peers, signal: AbortSignal): Promise<void>;
}

/**
 * Serves the layers of an engine to whoever dials and belongs to the ring, one run after another, until it is closed.
 * Whatever those who dial say, it goes on listening.
 */
export class PeerListener implements AsyncDisposable {
  private readonly interrupt = listenedTo(new AbortController());
  private readonly connections = new Set<Socket>();
  private readonly runs = new Set<Promise<unknown>>();
  /** The waiters for the connection that results go back on, for runs that this engine is the last one of. */
  private readonly returning = new Map<string, (connection: FrameConnection) => void>();
  /** Resolves when all runs so far are over. */
  private turn: Promise<unknown> = Promise.resolve();
  private closing: Promise<void> | undefined;

  private constructor(
    private readonly engine: ListeningEngine,
    private readonly options: ListenOptions,
    private readonly server: Server,
    /** Where it listens, with the port that was chosen where 0 was given. */
    readonly address: string,
  ) {}

  /**
   * @param address 127.0.0.1, [::1] or unix:PATH, unless a shared key or certificates are given
   * @throws UsageError for an address that is none, is in use, or is one that strangers reach
   */
  static async open(engine: ListeningEngine, address: string, options: ListenOptions = {}): Promise<PeerListener> {
    checkListenOptions(options);
    checkHiddenStates(engine.facts.layers, options.hiddenStates);
    const where = parsePeerAddress(address);
    const endpoint = await reach(where, options);
    if ('path' in endpoint) await freeUnixSocket(endpoint.path);
    const secured = tlsOptions(options);
    const server = secured
      ? createTlsServer({ ...secured, handshakeTimeout: GREETING_SECONDS * 1000 })
      : createNetServer();
    server.maxConnections = MOST_CONNECTIONS;
    try {
      server.listen(endpoint);
      await once(server, 'listening');
    } catch (error) {
      throw new UsageError(
        `address: found ${address}, expected one where this process may listen: ${errorOf(error).message}`,
        { cause: error },
      );
    }
    if ('path' in endpoint) ownUnixSocket(endpoint.path);
    const listener = new PeerListener(engine, options, server, addressWords(boundAddress(where, server)));
    server.on(secured ? 'secureConnection' : 'connection', (socket: Socket) => {
      listener.accept(socket);
    });
    server.on('tlsClientError', (error: Error, socket: Socket) => {
      socket.destroy();
      listener.refused(
        new PeerError('found somebody who does not prove to belong here, expected a peer', { cause: error }),
      );
    });
    // One connection that the system cannot give is no end of the others.
    server.on('error', (error: Error) => {
      listener.refused(new PeerError(error.message, { cause: error }));
    });
    return listener;
  }

  /** Ends the runs that are under way, and listens no longer. Idempotent. */
  close(): Promise<void> {
    this.closing ??= (async () => {
      const closed = new Promise((resolve) => this.server.close(resolve));
      this.interrupt.abort(new PeerError('the engine listens no longer'));
      await Promise.allSettled(this.runs);
      for (const socket of this.connections) socket.destroy();
      await closed;
    })();
    return this.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private accept(socket: Socket): void {
    this.connections.add(socket);
    socket.once('close', () => this.connections.delete(socket));
    socket.setNoDelay(true);
    const {
      silenceSeconds = SOCKET_OPTIONS.silenceSeconds.fallback,
      stallSeconds = SOCKET_OPTIONS.stallSeconds.fallback,
    } = this.options;
    const watch = new StallWatch(stallSeconds);
    const peer = socket.remoteAddress === undefined ? 'a local peer' : `${socket.remoteAddress}:${socket.remotePort}`;
    const connection = new FrameConnection(socket, peer, { silenceSeconds }, (since, missed) =>
      watch.overdue(since, missed),
    );
    const served = this.meet(connection, watch).catch((error: unknown) => {
      const reason = errorOf(error);
      this.refused(reason);
      return refuse(connection, reason);
    });
    this.runs.add(served);
    void served.finally(() => this.runs.delete(served));
  }

  /** Tells the caller, whose callback may throw: into nothing of this listener's. */
  private refused(reason: Error): void {
    queueMicrotask(() => this.options.onRefused?.(reason));
  }

  /** @throws what the one who dialled is refused with */
  private async meet(connection: FrameConnection, watch: StallWatch): Promise<void> {
    const patience = { seconds: GREETING_SECONDS, signal: this.interrupt.signal };
    const hello = await within(connection, patience, 'hello', () => greeted(connection));
    const welcome = welcomeOf(this.engine.facts, this.options.hiddenStates);
    checkFit(hello, welcome, connection.peer);
    switch (hello.role) {
      case 'ask':
        await answer(connection, welcome);
        connection.end();
        return;
      case 'return': {
        const take = this.returning.get(hello.run);
        if (!take)
          throw new PeerError('run: found one that is not under way here, expected one whose results are to go back');
        this.returning.delete(hello.run);
        await answer(connection, welcome);
        take(connection);
        return;
      }
      case 'forward':
        await this.serve(connection, hello, watch);
    }
  }

  /** A run, from its greeting to its end. */
  private async serve(connection: FrameConnection, hello: Hello, watch: StallWatch): Promise<void> {
    const { facts } = this.engine;
    const {
      connectSeconds: seconds = SOCKET_OPTIONS.connectSeconds.fallback,
      hiddenStates = SOCKET_OPTIONS.hiddenStates.fallback,
    } = this.options;
    const { before, over } = this.nextTurn();
    try {
      await within(connection, { seconds, signal: this.interrupt.signal }, 'end of the run that is under way', () =>
        Promise.race([before, connection.lost()]),
      );
      const behind = isLast(facts.layers)
        ? await this.resultsTo(connection, hello)
        : await this.nextOf(connection, hello);
      const source = new SocketSource(
        connection,
        hiddenStates,
        messageLimits(facts, hiddenStates),
        facts.block.slots,
        (message) => {
          watch.received(message, false);
        },
      );
      const sink = new SocketSink(behind, hiddenStates, mostUntakenBytes(facts), (message) => {
        watch.sent(message, false);
      });
      const peers: Peers = { source, sink };
      // Who has enough hidden states reads on when some are computed: until then nobody hears that the peer is gone.
      const lost = new AbortController();
      void connection.failed().then((failure) => lost.abort(failure));
      const ended = this.engine.follow(peers, AbortSignal.any([this.interrupt.signal, lost.signal])).then(
        () => undefined,
        (error: unknown) => errorOf(lost.signal.aborted ? lost.signal.reason : error),
      );
      queueMicrotask(() => this.options.onRun?.({ peer: connection.peer, ended }));
      const failure = await ended;
      if (!source.isTaken) {
        // No run has taken them: nobody else lets go of them.
        sink.close(failure);
        connection.destroy();
      }
    } finally {
      over();
    }
  }

  /**
   * Runs come one after another: tasks of an engine's queue run in order, and those of two runs, in an order of their
   * own on each engine, could wait for each other.
   */
  private nextTurn(): { readonly before: Promise<unknown>; readonly over: () => void } {
    const before = this.turn;
    let over = (): void => undefined;
    const ours = new Promise<void>((resolve) => (over = resolve));
    this.turn = before.then(() => ours);
    return { before, over };
  }

  /** Waits, in the last engine, for the connection on which results go back, which the first one makes. */
  private async resultsTo(connection: FrameConnection, { run, route }: Hello): Promise<FrameConnection> {
    if (route.length > 0)
      throw new PeerError(`route: found ${route.length} engines after the model's last layers, expected none`);
    if (this.returning.has(run)) throw new PeerError('run: found one that is under way, expected a new one');
    const { connectSeconds = SOCKET_OPTIONS.connectSeconds.fallback } = this.options;
    const patience = { seconds: connectSeconds, signal: this.interrupt.signal };
    const came = new Promise<FrameConnection>((resolve) => this.returning.set(run, resolve));
    try {
      await answer(connection, welcomeOf(this.engine.facts, this.options.hiddenStates));
      return await within(connection, patience, 'connection for results', () =>
        Promise.race([came, connection.lost()]),
      );
    } finally {
      this.returning.delete(run);
    }
  }

  /** Dials, in an engine between, the next one. */
  private async nextOf(connection: FrameConnection, hello: Hello): Promise<FrameConnection> {
    const [next, ...route] = hello.route;
    if (next === undefined || route.length >= MOST_ROUTE)
      throw new PeerError(
        `route: found ${hello.route.length} engines after these layers, expected 1 to ${MOST_ROUTE}: the model has layers after them`,
      );
    const { facts } = this.engine;
    const { connection: behind } = await dialPeer(
      nextAddress(next),
      { ...hello, layers: facts.layers, route },
      { ...this.options, signal: this.interrupt.signal },
    );
    try {
      await answer(connection, welcomeOf(facts, this.options.hiddenStates));
      return behind;
    } catch (error) {
      behind.destroy();
      throw error;
    }
  }
}

/** Each connection listens to it, and they are bounded. */
function listenedTo(controller: AbortController): AbortController {
  setMaxListeners(MOST_CONNECTIONS * 4, controller.signal);
  return controller;
}

/** A peer's word: what is wrong with it is the peer's error. */
function nextAddress(text: string): PeerAddress {
  try {
    return parsePeerAddress(text, 'route');
  } catch (error) {
    throw new PeerError(errorOf(error).message, { cause: error });
  }
}

function boundAddress(asked: PeerAddress, server: Server): PeerAddress {
  const bound = server.address();
  return asked.kind === 'tcp' && bound !== null && typeof bound === 'object' ? { ...asked, port: bound.port } : asked;
}
