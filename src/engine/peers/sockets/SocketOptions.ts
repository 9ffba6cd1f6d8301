import { checkMembers, type Check } from '../../../arguments/checkMembers.js';
import { checkFunction, checkSignal } from '../../../arguments/checks.js';
import { number, oneOf } from '../../../arguments/memberChecks.js';
import { HIDDEN_STATES, type HiddenStates } from '../../grid/HiddenStates.js';
import { UsageError } from '../../../errors/UsageError.js';
import { isWhole, type LayerPlace } from './layerPlace.js';
import { checkSecurity, type PeerSecurity } from './PeerSecurity.js';

/** How engines reach each other over sockets. */
export interface SocketOptions extends PeerSecurity {
  /** How long an engine is waited for that does not listen yet, does not answer, or serves another run. Default 30. */
  readonly connectSeconds?: number;
  /**
   * A peer that says nothing at all for so long is gone: each says several times a second that it is there. Default 30.
   */
  readonly silenceSeconds?: number;
  /** So long peers may take from one message to the next while results are due. Default 1800. */
  readonly stallSeconds?: number;
  /**
   * How hidden states are sent: the same in all engines of a ring. `bfloat16` halves the bytes and changes results a
   * little, by where the layers are cut. Default float32: the bits of one engine.
   */
  readonly hiddenStates?: HiddenStates;
  readonly signal?: AbortSignal;
}

export interface ListenOptions extends SocketOptions {
  /** Called when a run begins. */
  readonly onRun?: (run: ServedRun) => void;
  /** Called when somebody was refused who wanted one. */
  readonly onRefused?: (error: Error) => void;
}

/** A run of another engine's, as the one that follows it sees it. */
export interface ServedRun {
  /** Who dialled, in words. */
  readonly peer: string;
  /** Resolves when it is over: with why, where it did not end well. */
  readonly ended: Promise<Error | undefined>;
}

/** The longest deadline: more than a day is none. */
const DAY = 86_400;

/** The allowed values of options, and their defaults. */
export const SOCKET_OPTIONS = {
  connectSeconds: { least: 0, above: true, most: DAY, fallback: 30 },
  /** Peers are heard several times in the shortest. */
  silenceSeconds: { least: 1, most: DAY, fallback: 30 },
  stallSeconds: { least: 0, above: true, most: DAY, fallback: 1800 },
  hiddenStates: { among: HIDDEN_STATES, fallback: 'float32' },
} as const;

const CHECKS: Readonly<Record<keyof SocketOptions, Check>> = {
  // Both together, below.
  sharedKey: () => undefined,
  tls: () => undefined,
  connectSeconds: number(SOCKET_OPTIONS.connectSeconds),
  silenceSeconds: number(SOCKET_OPTIONS.silenceSeconds),
  stallSeconds: number(SOCKET_OPTIONS.stallSeconds),
  hiddenStates: oneOf(...HIDDEN_STATES),
  signal: checkSignal,
};

const LISTEN_CHECKS: Readonly<Record<keyof ListenOptions, Check>> = {
  ...CHECKS,
  onRun: checkFunction,
  onRefused: checkFunction,
};

/** @throws UsageError */
export function checkSocketOptions(options: unknown): asserts options is SocketOptions {
  checkMembers('options', options, CHECKS);
  checkSecurity(options);
}

/** @throws UsageError for hidden states that would not be the same in all engines which share each layer */
export function checkHiddenStates(place: LayerPlace, hiddenStates?: HiddenStates): void {
  const { shares } = place;
  if (isWhole(place) && hiddenStates === 'bfloat16')
    throw new UsageError('hiddenStates: found bfloat16 for an engine of all layers, expected float32: none are sent');
  if (shares !== undefined && hiddenStates === 'bfloat16')
    throw new UsageError(
      'hiddenStates: found bfloat16 beside tensorParallel, expected float32: all engines go on with the same sums',
    );
}

/** @throws UsageError */
export function checkListenOptions(options: unknown): asserts options is ListenOptions {
  checkMembers('options', options, LISTEN_CHECKS);
  checkSecurity(options);
}
