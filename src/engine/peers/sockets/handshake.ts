import { shortened } from '../../../arguments/found.js';
import { PeerError } from '../../../errors/engineErrors.js';
import type { BlockShape } from '../PeerMessage.js';
import { ByteReader } from './ByteReader.js';
import { ByteWriter } from './ByteWriter.js';
import { list, map, oneOf, optional, record, text, truth, whole, type Codec } from './codecs.js';
import type { EngineFacts } from './EngineFacts.js';
import type { Frame, FrameConnection } from './FrameConnection.js';
import type { FrameLimits, FrameName } from './frames.js';
import type { HiddenStates } from '../../grid/HiddenStates.js';
import { nextPlaceWords, follows, isFirst, isLast, layerWords, type LayerPlace } from './layerPlace.js';
import { block } from './messageCodecs.js';
import { REASON_BYTES } from './messageLimits.js';
import { MOST_ADDRESS_CHARACTERS } from './PeerAddress.js';
import { SOCKET_OPTIONS } from './SocketOptions.js';

/** The facts that decide an engine's results, member by member, as JSON. */
export type IdentityFacts = ReadonlyMap<string, string>;

/** The first frame of whoever dials. */
export interface Hello {
  /** `forward`: I send you messages; `return`: you send me those of the last layers; `ask`: what are you? */
  readonly role: 'forward' | 'return' | 'ask';
  /** Random: who knows it belongs to the run. */
  readonly run: string;
  readonly identity: IdentityFacts;
  readonly layers: LayerPlace;
  /** Where the engines after the one that is dialled listen, in order. */
  readonly route: readonly string[];
}

/** The answer to a `Hello`. */
export interface Welcome {
  readonly identity: IdentityFacts;
  readonly layers: LayerPlace;
  readonly block: BlockShape;
}

const RUN_CHARACTERS = 64;
/** Members of an identity are few, and short. */
const NAME_BYTES = 64;
const FACT_BYTES = 1024;
const MOST_FACTS = 1024;
const KIB = 2 ** 10;

const layers: Codec<LayerPlace> = record<LayerPlace>({
  first: whole,
  count: whole,
  of: whole,
  share: optional(whole),
  shares: optional(whole),
  byRows: optional(truth),
  prompts: optional(truth),
});
const identity = map(text(NAME_BYTES), text(FACT_BYTES), MOST_FACTS);

const HELLO: Codec<Hello> = record<Hello>({
  role: oneOf('forward', 'return', 'ask'),
  run: text(RUN_CHARACTERS),
  identity,
  layers,
  route: list(text(4 * MOST_ADDRESS_CHARACTERS)),
});

const WELCOME: Codec<Welcome> = record<Welcome>({
  identity,
  layers,
  block,
});

const REASON = text(REASON_BYTES);

const HELLO_LIMITS: FrameLimits = { ping: 0, hello: 64 * KIB };
const ANSWER_LIMITS: FrameLimits = { ping: 0, welcome: 16 * KIB, refused: 2 * REASON_BYTES };

/** The payload of a frame that is made of one value. Pure. */
export function payloadOf<T>(codec: Codec<T>, value: T): readonly Uint8Array[] {
  const out = new ByteWriter();
  codec.write(out, value);
  return out.finish();
}

/** @throws PeerError for what is no such value, or more. Pure. */
export function valueOf<T>(codec: Codec<T>, { name, payload }: Frame): T {
  const from = new ByteReader(payload);
  const value = codec.read(from, name);
  from.end(name);
  return value;
}

/** Why something ended, as it can be sent, and shown: on one line, and short. Pure. */
export function reasonOf(error: Error): readonly Uint8Array[] {
  return payloadOf(REASON, shortened(oneLine(error.message), REASON_BYTES / 4));
}

/** Pure. */
export function reasonIn(frame: Frame): string {
  return oneLine(valueOf(REASON, frame));
}

/** A peer's words go to terminals and logs. */
function oneLine(words: string): string {
  return words.replace(/\p{Cc}+/gu, ' ');
}

/** Collects the facts that decide results over a link: the engine's part, and how hidden states are sent. Pure. */
export function identityFacts(
  given: EngineFacts['identity'],
  hiddenStates: HiddenStates = SOCKET_OPTIONS.hiddenStates.fallback,
): IdentityFacts {
  return new Map(Object.entries({ ...given, hiddenStates }).map(([name, value]) => [name, JSON.stringify(value)]));
}

/** Pure. */
export function welcomeOf(
  { identity: given, layers: place, block }: EngineFacts,
  hiddenStates?: HiddenStates,
): Welcome {
  return { identity: identityFacts(given, hiddenStates), layers: place, block };
}

/**
 * Says hello and hears the answer.
 * @throws PeerError where the engine refuses, or does not fit to what was said
 */
export async function greet(connection: FrameConnection, hello: Hello): Promise<Welcome> {
  await connection.open();
  await connection.write('hello', payloadOf(HELLO, hello));
  const frame = await connection.read(ANSWER_LIMITS);
  if (!frame) throw new PeerError(`${connection.peer}: the connection was closed where an answer was expected`);
  if (frame.name === 'refused') throw new PeerError(`${connection.peer}: ${reasonIn(frame)}`);
  const welcome = valueOf(WELCOME, frame);
  checkFit(hello, welcome, connection.peer);
  return welcome;
}

/** Hears a hello. @throws PeerError */
export async function greeted(connection: FrameConnection): Promise<Hello> {
  await connection.open();
  const frame = await connection.read(HELLO_LIMITS);
  if (!frame) throw new PeerError(`${connection.peer}: the connection was closed where a hello was expected`);
  return valueOf(HELLO, frame);
}

export function answer(connection: FrameConnection, welcome: Welcome): Promise<void> {
  return connection.write('welcome', payloadOf(WELCOME, welcome));
}

/** @param error why, which the other side gets to read */
export async function refuse(connection: FrameConnection, error: Error): Promise<void> {
  await connection.write('refused' satisfies FrameName, reasonOf(error)).catch(() => undefined);
  connection.end();
}

/**
 * Checks whether two engines go together: the same model, the same arithmetic, and layers that join. Both sides ask.
 * Pure.
 *
 * @param hello of the one that dials
 * @param welcome of the one that is dialled
 * @throws PeerError naming what was found in the peer, and what was expected
 */
export function checkFit(
  { role, identity: ours, layers: before }: Pick<Hello, 'role' | 'identity' | 'layers'>,
  { identity: theirs, layers: behind }: Pick<Welcome, 'identity' | 'layers'>,
  peer: string,
): void {
  if (role === 'ask') return;
  for (const name of new Set([...ours.keys(), ...theirs.keys()])) {
    const [expected, found] = [ours.get(name), theirs.get(name)];
    if (expected !== found)
      throw new PeerError(
        `${peer}: ${name}: found ${found ?? 'nothing'}, expected ${expected ?? 'nothing'}: engines that share a model have to give the same bits`,
      );
  }
  const joined =
    role === 'forward'
      ? follows(before, behind)
      : isLast(behind) &&
        isFirst(before) &&
        behind.of === before.of &&
        behind.shares === before.shares &&
        behind.byRows === before.byRows;
  if (!joined)
    throw new PeerError(
      `${peer}: found ${layerWords(behind)}, expected ${
        role === 'forward'
          ? nextPlaceWords(before)
          : `the engine of the model's last ${before.shares === undefined ? 'layers' : 'share'}`
      }: the engines of a ring are named in the order of their ${before.shares === undefined ? 'layers' : 'shares'}`,
    );
}
