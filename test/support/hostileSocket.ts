import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as frames from '../../src/engine/peers/sockets/frames.js';
import type * as preambles from '../../src/engine/peers/sockets/preamble.js';

/** How engines write on a socket: of the sources, or of the package as it was built. */
export type Wire = Pick<typeof frames, 'FRAME_NAMES' | 'frameOf' | 'HEADER_BYTES'> &
  Pick<typeof preambles, 'PREAMBLE_BYTES' | 'preamble'>;

/** One frame as it was sent. */
export interface SentFrame {
  readonly name: frames.FrameName;
  readonly payload: Buffer;
}

/** What honest engines of two said to each other on their two connections, either way. */
export interface RecordedRun {
  readonly hello: SentFrame;
  readonly forward: readonly SentFrame[];
  readonly returnHello: SentFrame;
  readonly welcome: SentFrame;
  readonly results: readonly SentFrame[];
}

/** A whole number from `least` to `most`. */
export type Whole = (least: number, most: number) => number;

/** The frames of what one side of a connection has said so far. */
export function framesOf({ FRAME_NAMES, HEADER_BYTES, PREAMBLE_BYTES }: Wire, bytes: Buffer): SentFrame[] {
  const found: SentFrame[] = [];
  for (let at = PREAMBLE_BYTES; at + HEADER_BYTES <= bytes.length;) {
    const length = bytes.readUInt32LE(at);
    if (at + HEADER_BYTES + length > bytes.length) break;
    const name = FRAME_NAMES[bytes[at + 8] ?? -1];
    if (!name) throw new Error('no frame');
    found.push({ name, payload: bytes.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length) });
    at += HEADER_BYTES + length;
  }
  return found;
}

/** Records what a run says that goes through here to an engine that follows. */
export async function recorded(
  wire: Wire,
  target: string,
  run: (address: string) => Promise<void>,
): Promise<RecordedRun> {
  const said: { readonly there: Buffer[]; readonly back: Buffer[] }[] = [];
  const server = createServer((from) => {
    const to = connect({ host: '127.0.0.1', port: portOf(target) });
    const one = { there: [] as Buffer[], back: [] as Buffer[] };
    said.push(one);
    pass(from, to, one.there);
    pass(to, from, one.back);
  });
  const address = await listening(server);
  await run(address);
  server.close();
  const [forward, back] = said.map(({ there, back: answers }) => ({
    there: framesOf(wire, Buffer.concat(there)).filter(({ name }) => name !== 'ping'),
    back: framesOf(wire, Buffer.concat(answers)).filter(({ name }) => name !== 'ping'),
  }));
  const [hello, ...messages] = forward?.there ?? [];
  const [welcome, ...results] = back?.back ?? [];
  const [returnHello] = back?.there ?? [];
  if (!hello || !welcome || !returnHello) throw new Error('nothing was recorded');
  return { hello, forward: messages, returnHello, welcome, results };
}

function pass(from: Socket, to: Socket, into: Buffer[]): void {
  from.on('data', (bytes: Buffer) => {
    into.push(bytes);
    to.write(bytes);
  });
  from.on('error', () => undefined);
  from.on('close', () => to.end());
}

async function listening(server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound !== 'object') throw new Error('not bound');
  return `127.0.0.1:${bound.port}`;
}

function portOf(address: string): number {
  return Number(address.split(':').at(-1));
}

/** What a peer of no good will does to what an honest one would have said. */
export const HARMS = [
  'byte',
  'bytes',
  'cut',
  'longer',
  'drop',
  'repeat',
  'swap',
  'replay',
  'oversize',
  'kind',
  'number',
  'raw',
  'noise',
  'flood',
  'end',
] as const;
export type Harm = (typeof HARMS)[number];

/** Frames with one harm done, as bytes, numbered from `first`. */
export function harmed(
  { FRAME_NAMES, frameOf }: Wire,
  given: readonly SentFrame[],
  harm: Harm,
  whole: Whole,
  first = 0,
): Buffer[] {
  const at = whole(0, given.length - 1);
  const frame = given[at];
  if (!frame) return [];
  const withPayload = (payload: Buffer): SentFrame[] => given.with(at, { ...frame, payload }).slice();
  const bytes = (list: readonly SentFrame[]): Buffer[] =>
    list.map(({ name, payload }, index) => Buffer.concat(frameOf(name, first + index, [payload])));
  const changed = (payload: Buffer, times: number): Buffer => {
    const copy = Buffer.from(payload);
    for (let time = 0; time < times && copy.length > 0; time++)
      copy[whole(0, copy.length - 1)] = whole(0, 3) === 0 ? 0xff : whole(0, 255);
    return copy;
  };
  switch (harm) {
    case 'byte':
      return bytes(withPayload(changed(frame.payload, 1)));
    case 'bytes':
      return bytes(withPayload(changed(frame.payload, whole(2, 20))));
    case 'cut':
      return bytes(withPayload(frame.payload.subarray(0, whole(0, frame.payload.length))));
    case 'longer':
      return bytes(withPayload(Buffer.concat([frame.payload, Buffer.alloc(whole(1, 4096), whole(0, 255))])));
    case 'drop':
      return bytes(given.toSpliced(at, 1));
    case 'repeat':
      return bytes(given.toSpliced(at, 0, frame));
    case 'swap': {
      const other = whole(0, given.length - 1);
      return bytes(given.with(at, given[other] ?? frame).with(other, frame));
    }
    case 'replay': {
      const all = bytes(given);
      return all.toSpliced(at, 0, all[at] ?? Buffer.alloc(0));
    }
    case 'oversize': {
      const all = bytes(given);
      all[at]?.writeUInt32LE(whole(0, 1) === 0 ? 0xffff_ffff : whole(2 ** 20, 2 ** 31), 0);
      return all;
    }
    case 'kind':
      return bytes(given.with(at, { ...frame, name: FRAME_NAMES[whole(0, FRAME_NAMES.length - 1)] ?? 'ping' }));
    case 'number': {
      const all = bytes(given);
      all[at]?.writeUInt32LE(whole(0, 0xffff_ffff), 4);
      return all;
    }
    case 'raw': {
      const all = bytes(given);
      return all.with(at, changed(all[at] ?? Buffer.alloc(0), 1));
    }
    case 'noise':
      return bytes(given).with(at, Buffer.from(Array.from({ length: whole(1, 300) }, () => whole(0, 255))));
    case 'flood':
      return bytes([...given.slice(0, at + 1), ...Array.from({ length: whole(100, 3000) }, () => frame)]);
    case 'end':
      return bytes(given.slice(0, at));
  }
}

/** A hello that names another run: one that is recorded is over. */
export function withRun({ name, payload }: SentFrame, run: string): SentFrame {
  const copy = Buffer.from(payload);
  // The role, and the length of the run's name, are a byte each.
  copy.write(run, 2, 'latin1');
  return { name, payload: copy };
}

/**
 * Plays the engine of the first layers to one that follows, and goes away at the end.
 * @param greeting what is said instead of a hello, if anything
 */
export async function playFirst(
  { frameOf, preamble, HEADER_BYTES, PREAMBLE_BYTES }: Wire,
  target: string,
  { hello, returnHello }: Pick<RecordedRun, 'hello' | 'returnHello'>,
  said: readonly Buffer[],
  greeting?: readonly Buffer[],
): Promise<void> {
  const forward = connect({ host: '127.0.0.1', port: portOf(target) });
  const back = connect({ host: '127.0.0.1', port: portOf(target) });
  const closed = [forward, back].map(
    (socket) => new Promise<void>((resolve) => socket.on('error', () => undefined).once('close', () => resolve())),
  );
  back.resume();
  const answered = new Promise<void>((resolve) => {
    let length = 0;
    forward.on('data', (bytes: Buffer) => {
      length += bytes.length;
      if (length > PREAMBLE_BYTES + HEADER_BYTES) resolve();
    });
    forward.once('close', () => resolve());
  });
  if (greeting) for (const piece of greeting) forward.write(piece);
  else forward.write(Buffer.concat([preamble(), ...frameOf(hello.name, 0, [hello.payload])]));
  await Promise.race([answered, sleep(greeting ? 20 : 1000)]);
  back.write(Buffer.concat([preamble(), ...frameOf(returnHello.name, 0, [returnHello.payload])]));
  // Results may come.
  back.write(Buffer.concat(frameOf('credit', 1, [Buffer.from([100])])));
  await sleep(2);
  for (const piece of said) if (!forward.destroyed) forward.write(piece);
  forward.end();
  back.end();
  await Promise.race([Promise.all(closed), sleep(200)]);
  forward.destroy();
  back.destroy();
}

/** Plays the engine of the last layers to one that generates, for one run. */
export async function playLast(
  wire: Wire,
  { welcome }: Pick<RecordedRun, 'welcome'>,
  results: readonly Buffer[],
  run: (address: string) => Promise<void>,
): Promise<void> {
  const { frameOf, preamble } = wire;
  const sockets = new Set<Socket>();
  let back: Socket | undefined;
  let heard = 0;
  let told = 0;
  const speak = (): void => {
    // A result for each batch that has come, as an honest engine has them; the last ones at once.
    for (; back && told < Math.min(results.length, 1 + heard); told++) back.write(results[told] ?? Buffer.alloc(0));
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    let bytes = Buffer.alloc(0);
    let greeted = false;
    let seen = 0;
    socket.on('error', () => undefined);
    socket.on('data', (more: Buffer) => {
      bytes = Buffer.concat([bytes, more]);
      const said = framesOf(wire, bytes);
      const [hello] = said;
      if (!greeted && hello) {
        greeted = true;
        socket.write(Buffer.concat([preamble(), ...frameOf('welcome', 0, [welcome.payload])]));
        if (hello.payload[0] === 1) back = socket;
        else socket.write(Buffer.concat(frameOf('credit', 1, [Buffer.from([100])])));
      }
      const hidden = said.filter(({ name }) => name === 'hidden').length;
      heard += hidden - seen;
      seen = hidden;
      speak();
      if (told === results.length) back?.end();
    });
  });
  const address = await listening(server);
  try {
    await run(address);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}
