import { socketOptions } from './flags/peerFlags.js';
import type { RowJobFlags } from './flags/rowJobFlags.js';
import {
  describePeers,
  ringIdentity,
  SOCKET_OPTIONS,
  UsageError,
  type ConnectedPeers,
  type Engine,
  type EngineOptions,
  type PeerDescription,
} from './library.js';

/** The engines of a model's other layers, as `--peers` names them. */
export interface PeerRing {
  /** How the engine of the first layers is opened: with what these do not have, and slots that they have, too. */
  readonly options: Pick<EngineOptions, 'layers' | 'tensorParallel' | 'batchSize' | 'batches' | 'tokensPerSquare'>;
  /** The identity of all the engines together. */
  readonly identity: ReturnType<typeof ringIdentity>;
  connect(engine: Engine): Promise<ConnectedPeers>;
}

/** @throws UsageError, PeerError; undefined where there are none */
export async function peerRing(flags: RowJobFlags, signal: AbortSignal): Promise<PeerRing | undefined> {
  const { peers: addresses } = flags;
  if (addresses === undefined) {
    const { microBatches, sharedKeyFile, tlsKey, tlsCert, tlsCa, hiddenStates } = flags;
    const { connectTimeout, silenceTimeout, stallTimeout } = flags;
    const unlessDefault = <T>(value: T, { fallback }: { readonly fallback: T }): T | undefined =>
      value === fallback ? undefined : value;
    if (microBatches !== undefined)
      throw new UsageError(
        `--micro-batches: found ${microBatches} without --peers, expected engines that the parts of a block pass`,
      );
    const [alone] = Object.entries({
      '--shared-key-file': sharedKeyFile,
      '--tls-key': tlsKey,
      '--tls-cert': tlsCert,
      '--tls-ca': tlsCa,
      '--hidden-states': unlessDefault(hiddenStates, SOCKET_OPTIONS.hiddenStates),
      '--connect-timeout': unlessDefault(connectTimeout, SOCKET_OPTIONS.connectSeconds),
      '--silence-timeout': unlessDefault(silenceTimeout, SOCKET_OPTIONS.silenceSeconds),
      '--stall-timeout': unlessDefault(stallTimeout, SOCKET_OPTIONS.stallSeconds),
    }).filter(([, value]) => value !== undefined);
    if (alone === undefined) return undefined;
    throw new UsageError(`${alone[0]}: found ${alone[1]} without --peers, expected engines to speak to`);
  }
  if (flags.reuse !== undefined) throw new UsageError('--reuse: found one beside --peers, expected one of them');
  const options = await socketOptions(flags, signal);
  const peers = await describePeers(addresses, options);
  if (peers.some(({ layers }) => layers.prompts === true)) {
    if (peers.length > 1)
      throw new UsageError(
        `--peers: found ${peers.length}, one of which computes prompts, expected that one alone: this command has all layers then`,
      );
    return {
      options: {},
      identity: ringIdentity(peers, options),
      connect: (engine) => engine.connect(addresses, options),
    };
  }
  const shares = peers.some(({ layers }) => layers.shares !== undefined);
  const place = shares ? sharesBefore(peers) : layersBefore(peers, addresses[0] ?? '');
  const least = (of: (block: (typeof peers)[number]['block']) => number): number =>
    Math.min(...peers.map(({ block }) => of(block)));
  const square = flags.tokensPerSquare ?? least(({ tokensPerSquare }) => tokensPerSquare);
  return {
    options: {
      ...place,
      // What a policy file says is its own affair: an engine that has less says so.
      ...((flags.policy === 'auto' || flags.policy === 'default') && {
        tokensPerSquare: square,
        batchSize:
          flags.batchSize ??
          Math.min(
            square,
            least(({ rowsPerSlot }) => rowsPerSlot),
          ),
        batches: flags.batches ?? least(({ slots }) => slots),
      }),
    },
    identity: ringIdentity(peers, options),
    connect: (engine) => engine.connect(addresses, options),
  };
}

/** The share of every layer that is left to the first engine. @throws UsageError */
function sharesBefore(peers: readonly PeerDescription[]): Pick<EngineOptions, 'tensorParallel'> {
  const of = peers.length + 1;
  const byRows = peers[0]?.layers.byRows;
  peers.forEach(({ address, layers }, index) => {
    const { share, shares } = layers;
    if (layers.byRows !== byRows)
      throw new UsageError(
        `--peers: found attention by ${layers.byRows === true ? 'rows' : 'heads'} at ${address}, expected the same as at ${peers[0]?.address ?? ''}`,
      );
    if (share !== index + 1 || shares !== of)
      throw new UsageError(
        `--peers: found ${shares === undefined ? 'whole layers' : `share ${share} of ${shares}`} at ${address}, expected share ${index + 1} of ${of}: name engines in the order of their shares, and all of them but share 0`,
      );
  });
  return { tensorParallel: { index: 0, of, ...(byRows === true && { attention: 'rows' }) } };
}

/** The layers that are left to the first engine. @throws UsageError */
function layersBefore(peers: readonly PeerDescription[], address: string): Pick<EngineOptions, 'layers'> {
  const first = peers[0]?.layers.first ?? 0;
  if (first === 0)
    throw new UsageError(
      `--peers: found an engine of the model's first layers at ${address}, expected those after them: this command has the first ones`,
    );
  peers.forEach(({ address, layers }, index) => {
    const next = layers.first + layers.count;
    const behind = peers[index + 1];
    if (next !== (behind?.layers.first ?? layers.of))
      throw new UsageError(
        `--peers: found ${behind ? `layer ${behind.layers.first} at ${behind.address}` : 'nothing'} after ${address}, expected layer ${next} of ${layers.of}: name engines in the order of their layers, and all of them`,
      );
  });
  return { layers: { first: 0, count: first } };
}
