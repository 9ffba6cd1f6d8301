import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Engine, PeerMessage } from '../../src/index.js';

/** Long enough for a follower to have read what was sent; one that waits for more is interrupted then. */
const WAIT_MILLISECONDS = 40;

/** What a peer of no good will does to a list of messages. */
export interface Change {
  readonly at: number;
  readonly how: 'drop' | 'repeat' | 'swap' | 'value';
  readonly path: number;
  readonly value: unknown;
}

/** The value somewhere in a message, put in another's place. */
function withValue(whole: unknown, path: number, value: unknown): unknown {
  if (typeof whole !== 'object' || whole === null || ArrayBuffer.isView(whole) || path % 5 === 0) return value;
  const keys = Object.keys(whole);
  const key = keys[path % keys.length];
  if (key === undefined) return value;
  const copy: Record<string, unknown> | unknown[] = Array.isArray(whole) ? [...(whole as unknown[])] : { ...whole };
  (copy as Record<string, unknown>)[key] = withValue(
    (whole as Record<string, unknown>)[key],
    Math.floor(path / keys.length),
    value,
  );
  return copy;
}

/** The list with that done to it. */
export function changed(list: readonly unknown[], { at, how, path, value }: Change): unknown[] {
  const place = at % list.length;
  if (how === 'drop') return list.toSpliced(place, 1);
  if (how === 'repeat') return list.toSpliced(place, 0, list[path % list.length]);
  if (how === 'swap') return list.with(place, list[path % list.length]).with(path % list.length, list[place]);
  return list.with(place, withValue(list[place], path, value));
}

export const changes: fc.Arbitrary<Change> = fc.record<Change>({
  at: fc.nat(1000),
  how: fc.constantFrom('drop', 'repeat', 'swap', 'value', 'value'),
  path: fc.nat(100_000),
  value: fc.oneof(
    fc.constantFrom(undefined, null, NaN, -1, 0, 3, 2 ** 31, 2 ** 53, Infinity, 'x', new Float32Array(64)),
    fc.anything({ withMap: true, maxDepth: 1 }),
  ),
});

/** Has an engine follow a run's messages with all that done to them. @returns the error that it ends with, if any */
export async function followChanged(
  engine: Engine,
  messages: readonly PeerMessage[],
  list: readonly Change[],
): Promise<unknown> {
  const sent = list.reduce<unknown[]>(changed, [...messages]) as PeerMessage[];
  const source = (async function* () {
    yield* sent;
  })();
  const interrupt = new AbortController();
  const sink = { send: () => Promise.resolve(), close: () => undefined };
  const following = engine.follow({ source, sink }, { signal: interrupt.signal }).catch((error: unknown) => error);
  await Promise.race([following, sleep(WAIT_MILLISECONDS)]);
  interrupt.abort();
  return await following;
}
