import { randomBytes } from 'node:crypto';
import { found, shortened } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { isWithin, wholeRange } from '../../arguments/NumberRange.js';
import { QueueError } from '../../errors/QueueError.js';
import type { ShardProgress, ShardState } from './WorkSource.js';

// What becomes of a shard's state, whatever queue it is kept in. Pure but for `newAttempt`.

const STATES: readonly unknown[] = ['open', 'leased', 'committed', 'failed'];
const ATTEMPT = /^[0-9a-f]{16}$/;
const DELIVERIES = wholeRange(0, 1e9);
/** Reasons that are kept, and how long each may be. */
const REASONS = 3;
const REASON_CHARACTERS = 500;
const WORKER_CHARACTERS = 200;

export function newAttempt(): string {
  return randomBytes(8).toString('hex');
}

export function openShard(shard: number): ShardState {
  return { shard, state: 'open', deliveries: 0, reasons: [] };
}

/** Tells whether a shard is still to be done. */
export function isWaiting({ state }: ShardState): boolean {
  return state === 'open' || state === 'leased';
}

/**
 * The state once somebody wants a shard that is open, or whose lease is over: leased, or failed if it was delivered too
 * often. An attempt that has it already keeps it.
 */
export function leased(before: ShardState, attempt: string, worker: string, maxDeliver: number): ShardState {
  if (before.state === 'leased' && before.attempt === attempt) return before;
  const away = withoutProgress(
    before.state === 'leased'
      ? withReason(before, `${before.worker ?? 'its worker'} went away, or did not renew its lease in time`)
      : before,
  );
  return before.deliveries >= maxDeliver
    ? { ...away, state: 'failed' }
    : {
        ...away,
        state: 'leased',
        deliveries: before.deliveries + 1,
        attempt,
        worker: shortened(worker, WORKER_CHARACTERS),
      };
}

/** A progress is that of a lease, and ends with it. */
function withoutProgress({ progress: _progress, ...rest }: ShardState): ShardState {
  return rest;
}

export function holds({ state, attempt }: ShardState, own: string): boolean {
  return state === 'leased' && attempt === own;
}

/** The state once an attempt is whole, whoever has the lease by now. Undefined where another one is committed. */
export function committed(before: ShardState, attempt: string, worker: string): ShardState | undefined {
  if (before.state === 'committed') return before.attempt === attempt ? before : undefined;
  return { ...withoutProgress(before), state: 'committed', attempt, worker: shortened(worker, WORKER_CHARACTERS) };
}

/** The state once an attempt has given its shard back, which then does not count. Undefined where it has none. */
export function givenBack(before: ShardState, attempt: string): ShardState | undefined {
  if (!holds(before, attempt)) return undefined;
  const { attempt: _attempt, worker: _worker, ...rest } = withoutProgress(before);
  return { ...rest, state: 'open', deliveries: Math.max(0, before.deliveries - 1) };
}

/** The state once an attempt has failed. Undefined where it has no shard. */
export function failed(
  before: ShardState,
  attempt: string,
  reason: string,
  maxDeliver: number,
): ShardState | undefined {
  if (!holds(before, attempt)) return undefined;
  const { attempt: _attempt, ...rest } = withoutProgress(
    withReason(before, `${before.worker ?? 'its worker'}: ${reason}`),
  );
  return { ...rest, state: before.deliveries >= maxDeliver ? 'failed' : 'open' };
}

/** The state once the job was cancelled. Undefined where there is nothing left to do. */
export function cancelled(before: ShardState, reason: string): ShardState | undefined {
  if (!isWaiting(before)) return undefined;
  const { attempt: _attempt, ...rest } = withoutProgress(withReason(before, reason));
  return { ...rest, state: 'failed' };
}

/** The state once its worker has said how far it is. */
export function progressed(before: ShardState, progress: ShardProgress | undefined): ShardState {
  return progress ? { ...before, progress } : before;
}

function withReason(before: ShardState, reason: string): ShardState {
  return { ...before, reasons: [...before.reasons, shortened(reason, REASON_CHARACTERS)].slice(-REASONS) };
}

/**
 * A state as a queue holds it.
 * @param queue for the message
 * @throws QueueError for what is none of that shard
 */
export function checkedState(queue: string, shard: number, value: unknown): ShardState {
  const { state, deliveries, attempt, worker, reasons, progress } = isObject(value) ? value : {};
  const fits =
    STATES.includes(state) &&
    isWithin(deliveries, DELIVERIES) &&
    (isNothing(attempt) || isAttempt(attempt)) &&
    (isNothing(worker) || isText(worker, WORKER_CHARACTERS)) &&
    Array.isArray(reasons) &&
    reasons.length <= REASONS &&
    reasons.every((reason) => isText(reason, REASON_CHARACTERS)) &&
    ((state !== 'leased' && state !== 'committed') || isAttempt(attempt));
  if (!fits)
    throw new QueueError(
      queue,
      `shard ${shard}: found ${found(value)}, expected its state, deliveries, attempt, worker and reasons`,
    );
  return {
    shard,
    state: state as ShardState['state'],
    deliveries,
    ...(isAttempt(attempt) && { attempt }),
    ...(typeof worker === 'string' && { worker }),
    ...(isProgress(progress) && { progress: { rows: progress.rows, rowsPerSecond: progress.rowsPerSecond } }),
    reasons: reasons as readonly string[],
  };
}

/** A value that is no progress is left out: it decides nothing. */
function isProgress(value: unknown): value is ShardProgress {
  return (
    isObject(value) &&
    isWithin(value['rows'], wholeRange(0)) &&
    typeof value['rowsPerSecond'] === 'number' &&
    value['rowsPerSecond'] >= 0 &&
    value['rowsPerSecond'] < Infinity
  );
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

export function isAttempt(value: unknown): value is string {
  return typeof value === 'string' && ATTEMPT.test(value);
}

/** A text that was cut is one character longer. */
function isText(value: unknown, most: number): boolean {
  return typeof value === 'string' && value.length <= most + 1;
}
