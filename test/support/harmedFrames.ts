import type * as frames from '../../src/engine/peers/sockets/frames.js';
import type * as messageFrames from '../../src/engine/peers/sockets/messageFrames.js';
import type * as preambles from '../../src/engine/peers/sockets/preamble.js';

/** How engines write on a socket: of the sources, or of the package as it was built. */
export type Wire = Pick<typeof frames, 'FRAME_NAMES' | 'frameOf' | 'HEADER_BYTES'> &
  Pick<typeof messageFrames, 'messageIn' | 'messagePayload'> &
  Pick<typeof preambles, 'PREAMBLE_BYTES' | 'preamble'>;

/** One frame as it was sent. */
export interface SentFrame {
  readonly name: frames.FrameName;
  readonly payload: Buffer;
}

/** A whole number from `least` to `most`. */
export type Whole = (least: number, most: number) => number;

/**
 * What a peer of no good will does to what an honest one would have said. Checksums and numbers of frames are right
 * again, but where these are what is harmed, so that each layer of checks meets its share.
 */
export const HARMS = [
  'byte',
  'bytes',
  'bits',
  'cut',
  'longer',
  'splice',
  'length',
  'field',
  'drop',
  'repeat',
  'swap',
  'replay',
  'other run',
  'oversize',
  'kind',
  'number',
  'raw',
  'noise',
  'flood',
  'pings',
  'credits',
  'end',
] as const;
export type Harm = (typeof HARMS)[number];

/** The frames as bytes, numbered from `first`. */
export function framed({ frameOf }: Wire, given: readonly SentFrame[], first = 0): Buffer[] {
  return given.map(({ name, payload }, index) => Buffer.concat(frameOf(name, first + index, [payload])));
}

/**
 * Frames with one harm done, as bytes, numbered from `first`.
 * @param others of another run between the same engines
 */
export function harmed(
  wire: Wire,
  given: readonly SentFrame[],
  harm: Harm,
  whole: Whole,
  { first = 0, others = given }: { readonly first?: number; readonly others?: readonly SentFrame[] } = {},
): Buffer[] {
  const at = whole(0, given.length - 1);
  const frame = given[at];
  if (!frame) return [];
  const bytes = (list: readonly SentFrame[]): Buffer[] => framed(wire, list, first);
  const withPayload = (payload: Buffer): Buffer[] => bytes(given.with(at, { ...frame, payload }));
  const other = others[whole(0, others.length - 1)] ?? frame;
  const many = (name: frames.FrameName, payload: Buffer): Buffer[] =>
    bytes([
      ...given.slice(0, at),
      ...Array.from({ length: whole(100, 3000) }, () => ({ name, payload })),
      ...given.slice(at),
    ]);
  switch (harm) {
    case 'byte':
      return withPayload(changed(frame.payload, 1, whole));
    case 'bytes':
      return withPayload(changed(frame.payload, whole(2, 20), whole));
    case 'bits':
      return withPayload(flipped(frame.payload, whole(1, 4), whole));
    case 'cut':
      return withPayload(frame.payload.subarray(0, whole(0, frame.payload.length)));
    case 'longer':
      return withPayload(Buffer.concat([frame.payload, Buffer.alloc(whole(1, 4096), whole(0, 255))]));
    case 'splice':
      return withPayload(
        Buffer.concat([
          frame.payload.subarray(0, whole(0, frame.payload.length)),
          other.payload.subarray(whole(0, other.payload.length)),
        ]),
      );
    case 'length':
      return withPayload(lying(frame.payload, whole));
    case 'field':
      return withPayload(withField(wire, frame, whole));
    case 'drop':
      return bytes(given.toSpliced(at, 1));
    case 'repeat':
      return bytes(given.toSpliced(at, 0, frame));
    case 'swap': {
      const place = whole(0, given.length - 1);
      return bytes(given.with(at, given[place] ?? frame).with(place, frame));
    }
    case 'replay': {
      const all = bytes(given);
      return all.toSpliced(at, 0, all[at] ?? Buffer.alloc(0));
    }
    case 'other run':
      return bytes([...given.slice(0, at), ...others.slice(whole(0, others.length - 1))]);
    case 'oversize': {
      const all = bytes(given);
      all[at]?.writeUInt32LE(whole(0, 1) === 0 ? 0xffff_ffff : whole(2 ** 20, 2 ** 31), 0);
      return all;
    }
    case 'kind':
      return bytes(given.with(at, { ...frame, name: anyOf(wire.FRAME_NAMES, whole) }));
    case 'number': {
      const all = bytes(given);
      all[at]?.writeUInt32LE(whole(0, 0xffff_ffff), 4);
      return all;
    }
    case 'raw': {
      const all = bytes(given);
      return all.with(at, flipped(all[at] ?? Buffer.alloc(0), 1, whole));
    }
    case 'noise':
      return bytes(given).with(at, Buffer.from(Array.from({ length: whole(1, 300) }, () => whole(0, 255))));
    case 'flood':
      return bytes([...given.slice(0, at + 1), ...Array.from({ length: whole(100, 3000) }, () => frame)]);
    case 'pings':
      return many('ping', Buffer.alloc(0));
    case 'credits':
      return many('credit', wholeBytes(whole(0, 1) === 0 ? whole(0, 100) : Number.MAX_SAFE_INTEGER));
    case 'end':
      return bytes(given.slice(0, at));
  }
}

function anyOf<T>(among: readonly [T, ...T[]], whole: Whole): T {
  return among[whole(0, among.length - 1)] ?? among[0];
}

function changed(payload: Buffer, times: number, whole: Whole): Buffer {
  const copy = Buffer.from(payload);
  for (let time = 0; time < times && copy.length > 0; time++)
    copy[whole(0, copy.length - 1)] = whole(0, 3) === 0 ? 0xff : whole(0, 255);
  return copy;
}

function flipped(payload: Buffer, times: number, whole: Whole): Buffer {
  const copy = Buffer.from(payload);
  for (let time = 0; time < times && copy.length > 0; time++) {
    const at = whole(0, copy.length - 1);
    copy[at] = (copy[at] ?? 0) ^ (1 << whole(0, 7));
  }
  return copy;
}

/** Of any size, seven bits a byte, as `ByteWriter` writes them. */
function wholeBytes(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

/** Somewhere a number, a length perhaps, is another one, in as many bytes as that takes. */
function lying(payload: Buffer, whole: Whole): Buffer {
  const at = whole(0, payload.length - 1);
  const value = anyOf(WHOLES, whole);
  return Buffer.concat([payload.subarray(0, at), wholeBytes(value), payload.subarray(at + 1)]);
}

const WHOLES: readonly [number, ...number[]] = [
  0,
  1,
  2,
  3,
  15,
  16,
  17,
  127,
  128,
  255,
  256,
  2 ** 16,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32,
  2 ** 40,
  Number.MAX_SAFE_INTEGER,
];
const NUMBERS: readonly [number, ...number[]] = [NaN, Infinity, -Infinity, -0, -1, 1e-300, 1e308];

/** A message that is well made, of which one member is another; as it was where nothing of it can be sent. */
function withField(wire: Wire, { name, payload }: SentFrame, whole: Whole): Buffer {
  try {
    // Of its own: an honest frame is said again.
    const message = wire.messageIn({ name, payload: Buffer.from(payload) });
    return Buffer.concat(wire.messagePayload(otherwise(message, whole) as typeof message));
  } catch {
    return changed(payload, 1, whole);
  }
}

/** The value, with something in it changed for something of its kind. */
function otherwise(value: unknown, whole: Whole): unknown {
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return whole(0, 3) === 0 ? anyOf(NUMBERS, whole) : anyOf(WHOLES, whole);
  if (typeof value === 'string') return `${value.slice(whole(0, value.length))}${'x'.repeat(whole(0, 40))}`;
  if (value instanceof Float32Array) return new Float32Array(whole(0, 2 * value.length)).fill(NaN);
  if (value instanceof Map) return new Map(otherwise([...value], whole) as [unknown, unknown][]);
  if (Array.isArray(value)) {
    const list: readonly unknown[] = value;
    const at = whole(0, Math.max(0, list.length - 1));
    switch (list.length === 0 ? 'none' : whole(0, 4)) {
      case 'none':
        return [];
      case 0:
        return list.toSpliced(at, 1);
      case 1:
        return list.toSpliced(at, 0, list[at]);
      case 2:
        return Array.from({ length: whole(2, 200) }, () => list[at]);
      default:
        return list.with(at, otherwise(list[at], whole));
    }
  }
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name]) => name !== 'kind');
  const [name, member] = members[whole(0, members.length - 1)] ?? [];
  return name === undefined ? value : { ...value, [name]: whole(0, 9) === 0 ? undefined : otherwise(member, whole) };
}
