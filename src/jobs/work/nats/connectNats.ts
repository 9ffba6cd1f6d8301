import type * as JetStream from '@nats-io/jetstream';
import type * as KeyValue from '@nats-io/kv';
import type * as Transport from '@nats-io/transport-node';
import { readFile } from 'node:fs/promises';
import { UsageError } from '../../../errors/UsageError.js';
import { fileFailure } from '../../../files/fileErrors.js';
import { loadPeers } from '../../loadPeers.js';
import { persistently } from '../persistently.js';
import type { QueueAddress } from '../QueueAddress.js';

/** A connection that comes back by itself, and what is built on it. */
export interface Nats {
  readonly connection: Transport.NatsConnection;
  readonly js: JetStream.JetStreamClient;
  readonly manager: JetStream.JetStreamManager;
  readonly kvm: KeyValue.Kvm;
  readonly libraries: { readonly jetstream: typeof JetStream };
  readonly replicas: number;
  readonly secrets: readonly (string | undefined)[];
  readonly isTransient: (error: unknown) => boolean;
  /** Tells whether there is no such stream or bucket. */
  readonly isMissing: (error: unknown) => boolean;
}

const CONNECT_SECONDS = 5;
/** How long a worker that begins waits for a queue, which may be being started itself. */
const REACH_SECONDS = 15;
/** The server's answer while it is being started, or has no leader. */
const UNAVAILABLE = 503;
/** Between tries to come back, and by how much it is drawn longer, so that workers do not come all at once. */
const [RECONNECT_MILLISECONDS, JITTER_MILLISECONDS] = [250, 100];
/** Silence of the server that is taken for its absence: twice as long. */
const PING_SECONDS = 10;

/**
 * Credentials are those of the URL (`nats://USER:PASSWORD@…`, `nats://TOKEN@…`), else those of the environment, by the
 * names that the `nats` command knows: `NATS_USER` and `NATS_PASSWORD`, `NATS_TOKEN`, `NATS_CREDS`; likewise
 * certificates: `NATS_CA`, `NATS_CERT`, `NATS_KEY`.
 * @throws QueueError; UsageError where the packages are not installed
 */
export async function connectNats(
  { url, name }: QueueAddress,
  job: string,
  environment: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal | undefined,
): Promise<Nats> {
  const [transport, jetstream, kv] = (await loadPeers(
    'a queue on NATS',
    '@nats-io/transport-node',
    '@nats-io/jetstream',
    '@nats-io/kv',
  )) as readonly [typeof Transport, typeof JetStream, typeof KeyValue];
  const replicas = Number(url.searchParams.get('replicas') ?? 1);
  if (![1, 3, 5].includes(replicas))
    throw new UsageError(
      `queue: found ${JSON.stringify(url.searchParams.get('replicas'))} replicas, expected 1, 3 or 5`,
    );
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const {
    NATS_USER,
    NATS_PASSWORD,
    NATS_TOKEN,
    NATS_CREDS,
    NATS_CA: caFile,
    NATS_CERT: certFile,
    NATS_KEY: keyFile,
  } = environment;
  const login =
    user === ''
      ? { ...(NATS_USER && { user: NATS_USER, pass: NATS_PASSWORD ?? '' }), ...(NATS_TOKEN && { token: NATS_TOKEN }) }
      : password === ''
        ? { token: user }
        : { user, pass: password };
  const creds = user === '' && NATS_CREDS ? await readCreds(NATS_CREDS) : undefined;
  const files = { ...(caFile && { caFile }), ...(certFile && { certFile }), ...(keyFile && { keyFile }) };
  // What stands alone is a token.
  const secrets = [password === '' ? user : password, NATS_PASSWORD, NATS_TOKEN];
  const isTransient = (error: unknown): boolean => {
    if (error instanceof transport.AuthorizationError || error instanceof transport.UserAuthenticationExpiredError)
      return false;
    if (error instanceof jetstream.JetStreamApiError) return error.status === UNAVAILABLE;
    return error instanceof Error && !(error instanceof TypeError);
  };
  const open = async (): Promise<Nats> => {
    const connection = await transport.connect({
      servers: url.host,
      name: `spillway job ${job}`,
      timeout: CONNECT_SECONDS * 1000,
      maxReconnectAttempts: -1,
      reconnectDelayHandler: reconnectDelays(),
      pingInterval: PING_SECONDS * 1000,
      ...login,
      ...(creds && { authenticator: transport.credsAuthenticator(creds) }),
      ...((url.protocol === 'tls:' || Object.keys(files).length > 0) && { tls: files }),
    });
    try {
      const js = jetstream.jetstream(connection);
      return {
        connection,
        js,
        manager: await jetstream.jetstreamManager(connection),
        kvm: new kv.Kvm(js),
        libraries: { jetstream },
        replicas,
        secrets,
        isTransient,
        isMissing: (error) =>
          error instanceof jetstream.JetStreamApiError && error.code === jetstream.JetStreamApiCodes.StreamNotFound,
      };
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
  return persistently({ name, secrets, isTransient }, 'connect', open, { seconds: REACH_SECONDS, signal });
}

/**
 * The client knows when it tried last by the clock of the day, and adds to that what is returned: one that was set back
 * by a day would keep it away for a day. So whether it is time is told by a clock that is not set.
 * @returns what the client asks before each try: milliseconds from the last one
 */
function reconnectDelays(): () => number {
  let due = -Infinity;
  return () => {
    const [now, pause] = [performance.now(), RECONNECT_MILLISECONDS + Math.random() * JITTER_MILLISECONDS];
    if (now < due) return pause;
    due = now + pause;
    return -Infinity;
  };
}

async function readCreds(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw fileFailure(path, 'read', error);
  }
}
