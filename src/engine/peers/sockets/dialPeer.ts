import { dial } from './dial.js';
import { FrameConnection } from './FrameConnection.js';
import { greet, type Hello, type Welcome } from './handshake.js';
import { addressWords, type PeerAddress } from './PeerAddress.js';
import { SOCKET_OPTIONS, type SocketOptions } from './SocketOptions.js';
import type { StallWatch } from './StallWatch.js';
import { within } from './within.js';

/** A connection to an engine that has been greeted, and has answered. */
export interface DialledPeer {
  readonly connection: FrameConnection;
  readonly welcome: Welcome;
}

/**
 * Connects to an engine that follows, and greets it.
 * @throws PeerError, InterruptedError
 */
export async function dialPeer(
  address: PeerAddress,
  hello: Hello,
  options: SocketOptions,
  watch?: StallWatch,
): Promise<DialledPeer> {
  const {
    connectSeconds: seconds = SOCKET_OPTIONS.connectSeconds.fallback,
    silenceSeconds = SOCKET_OPTIONS.silenceSeconds.fallback,
    signal,
  } = options;
  const socket = await dial(address, options, { seconds, signal });
  const connection = new FrameConnection(
    socket,
    addressWords(address),
    { silenceSeconds },
    watch && ((since, missed) => watch.overdue(since, missed)),
  );
  // The engines after it are dialled in the meantime, one by the other.
  const patience = { seconds: seconds * (1 + hello.route.length), signal };
  const welcome = await within(connection, patience, 'answer', () => greet(connection, hello));
  return { connection, welcome };
}
