import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { framed, harmed, HARMS, type Harm, type SentFrame, type Whole, type Wire } from './harmedFrames.js';

/** What was said on one connection of a ring, with the frames that only show life left out. */
export interface RecordedLink {
  readonly hello: SentFrame;
  readonly welcome: SentFrame;
  /** By who dialled, after its hello. */
  readonly forth: readonly SentFrame[];
  /** By who listens, after its welcome. */
  readonly back: readonly SentFrame[];
}

/** What three honest engines said to each other, on their three connections. */
export interface RecordedRun {
  readonly toMiddle: RecordedLink;
  readonly toLast: RecordedLink;
  readonly results: RecordedLink;
  /** Where the first engine said that the last one listens. */
  readonly route: string;
}

/** How somebody says what he says. */
export const MANNERS = ['plain', 'drip', 'silent', 'stalled', 'deaf'] as const;
export type Manner = (typeof MANNERS)[number];

/** Somebody who stays beyond that lets go. */
const STAY_MILLISECONDS = 6000;
/** Of bytes that come one by one, so many are enough. */
const DRIPPED_BYTES = 3000;
const SIGN_MILLISECONDS = 200;
/** `return` among the roles of a hello, which is its first byte. */
const RETURN = 1;
const CREDITS = Buffer.from([100]);

/** What `net` takes, of `HOST:PORT` or `unix:PATH`. */
function endpointOf(address: string): { readonly path: string } | { readonly host: string; readonly port: number } {
  if (address.startsWith('unix:')) return { path: address.slice('unix:'.length) };
  const [, host = '', port] = /^(.*):(\d+)$/.exec(address) ?? [];
  return { host, port: Number(port) };
}

async function listening(server: Server, address: string): Promise<string> {
  server.listen(endpointOf(address));
  await once(server, 'listening');
  const bound = server.address();
  return bound !== null && typeof bound === 'object' ? `127.0.0.1:${bound.port}` : address;
}

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

/**
 * Records what a run says to an engine that follows and to the last one.
 * @param targets where these two listen
 */
export async function recorded(
  wire: Wire,
  targets: readonly [middle: string, last: string],
  run: (addresses: readonly string[]) => Promise<void>,
): Promise<RecordedRun> {
  const [middle, last] = await Promise.all(targets.map((target) => recorder(wire, target)));
  if (!middle || !last) throw new Error('no recorders');
  await run([middle.address, last.address]);
  const [toMiddle] = middle.links();
  const links = last.links();
  const results = links.find(({ hello }) => hello.payload[0] === RETURN);
  const toLast = links.find(({ hello }) => hello.payload[0] !== RETURN);
  if (!toMiddle || !toLast || !results) throw new Error('nothing was recorded');
  return { toMiddle, toLast, results, route: last.address };
}

async function recorder(
  wire: Wire,
  target: string,
): Promise<{ readonly address: string; readonly links: () => RecordedLink[] }> {
  const said: { readonly there: Buffer[]; readonly back: Buffer[] }[] = [];
  const server = createServer((from) => {
    const to = connect(endpointOf(target));
    const one = { there: [] as Buffer[], back: [] as Buffer[] };
    said.push(one);
    pass(from, to, one.there);
    pass(to, from, one.back);
  });
  const framesIn = (pieces: readonly Buffer[]): SentFrame[] =>
    framesOf(wire, Buffer.concat(pieces)).filter(({ name }) => name !== 'ping');
  return {
    address: await listening(server, '127.0.0.1:0'),
    links: () => {
      server.close();
      return said.map(({ there, back: answers }) => {
        const [hello, ...forth] = framesIn(there);
        const [welcome, ...back] = framesIn(answers);
        if (!hello || !welcome) throw new Error('nothing was recorded');
        return { hello, forth, welcome, back };
      });
    },
  };
}

function pass(from: Socket, to: Socket, into: Buffer[]): void {
  from.on('data', (bytes: Buffer) => {
    into.push(bytes);
    to.write(bytes);
  });
  from.on('error', () => undefined);
  from.on('close', () => to.end());
}

/** A hello that names another run: one that is recorded is over. */
export function withRun({ name, payload }: SentFrame, run: string): SentFrame {
  const copy = Buffer.from(payload);
  // The role, and the length of the run's name, are a byte each.
  copy.write(run, 2, 'latin1');
  return { name, payload: copy };
}

/** A hello, or a welcome, of another model: a digit of the hash of its contents is another. */
function ofAnotherModel({ name, payload }: SentFrame, at: number): SentFrame {
  const copy = Buffer.from(payload);
  const place = payload.toString('latin1').search(/(?<=")[0-9a-f]{64}"/) + (at % 64);
  copy.write(copy.toString('latin1', place, place + 1) === '0' ? '1' : '0', place, 'latin1');
  return { name, payload: copy };
}

/** A hello whose route, of one address, which is its end, is another one. */
function withRoute({ name, payload }: SentFrame, from: string, to: string): SentFrame {
  // How many addresses, and the length of the first one, are a byte each.
  const before = payload.subarray(0, payload.length - 2 - from.length);
  return { name, payload: Buffer.concat([before, Buffer.from([1, to.length]), Buffer.from(to)]) };
}

/** Somebody who stands before an engine, or after one. */
export interface Impostor {
  /** What he says once he has been answered, or asked; as bytes. */
  readonly said: readonly Buffer[];
  readonly manner: Manner;
  /** Instead of the protocol's version and a hello or a welcome, if anything. */
  readonly greeting?: readonly Buffer[] | undefined;
}

/**
 * Plays the engine of the layers before to one that follows, and the one after it where it is not the last; and goes
 * away when the other one does.
 *
 * @param name random, of 32 characters
 */
export async function playBefore(
  wire: Wire,
  target: string,
  { toMiddle, toLast, results, route }: RecordedRun,
  name: string,
  victim: 'middle' | 'last',
  { said, manner, greeting }: Impostor,
): Promise<void> {
  const { frameOf, preamble, HEADER_BYTES, PREAMBLE_BYTES } = wire;
  const behind = victim === 'middle' ? await listenAsLast(wire, toLast.welcome) : undefined;
  const hello = behind ? withRoute(toMiddle.hello, route, behind.address) : toLast.hello;
  const forward = new Speaker(target);
  const back = victim === 'last' ? new Speaker(target) : undefined;
  try {
    // Who does not listen does so from the beginning.
    if (manner !== 'deaf') back?.socket.resume();
    const answered = forward.heard(PREAMBLE_BYTES + HEADER_BYTES + 1);
    for (const piece of greeting ?? [preamble(), ...frameOf(hello.name, 0, [withRun(hello, name).payload])])
      forward.socket.write(piece);
    await Promise.race([answered, sleep(greeting ? SIGN_MILLISECONDS : STAY_MILLISECONDS, undefined, { ref: false })]);
    if (back) {
      const { hello: returning } = results;
      back.socket.write(
        Buffer.concat([
          preamble(),
          ...frameOf(returning.name, 0, [withRun(returning, name).payload]),
          ...(manner === 'deaf' ? [] : frameOf('credit', 1, [CREDITS])),
        ]),
      );
    }
    await forward.say(wire, said, manner);
    await Promise.race([Promise.all([forward.closed, back?.closed]), sleep(SIGN_MILLISECONDS)]);
  } finally {
    forward.socket.destroy();
    back?.socket.destroy();
    behind?.close();
  }
}

/** One connection of an impostor's. */
class Speaker {
  readonly socket: Socket;
  readonly closed: Promise<void>;

  constructor(target: string) {
    this.socket = connect({ ...endpointOf(target) });
    this.closed = closedOf(this.socket);
  }

  /** Resolves when so many bytes have come, or none will. */
  heard(bytes: number): Promise<void> {
    let length = 0;
    const enough = new Promise<void>((resolve) => {
      this.socket.on('data', (more: Buffer) => {
        length += more.length;
        if (length >= bytes) resolve();
      });
    });
    return Promise.race([enough, this.closed]);
  }

  say(wire: Wire, said: readonly Buffer[], manner: Manner): Promise<void> {
    return say(wire, this.socket, this.closed, said, manner);
  }
}

/** The engine that is not played. */
export const VICTIMS = ['first', 'middle', 'last'] as const;
export type Victim = (typeof VICTIMS)[number];

/** What somebody says to an engine instead of what was recorded; of a harmed `greeting`, the rest as it was. */
export function harmedPart(
  wire: Wire,
  { run, other }: { readonly run: RecordedRun; readonly other: RecordedRun },
  victim: Victim,
  harm: Harm | 'greeting',
  whole: Whole,
): Pick<Impostor, 'said' | 'greeting'> {
  const partOf = ({ toMiddle, toLast, results }: RecordedRun): readonly [SentFrame, readonly SentFrame[]] => {
    if (victim === 'first') return [toMiddle.welcome, results.back];
    const { hello, forth } = victim === 'middle' ? toMiddle : toLast;
    return [hello, forth];
  };
  const [greeting, said] = partOf(run);
  if (harm !== 'greeting') return { said: harmed(wire, said, harm, whole, { first: 1, others: partOf(other)[1] }) };
  const version = wire.preamble(whole(0, 4) === 0 ? whole(0, 1000) : undefined);
  const harms = HARMS.filter((each) => each !== 'field');
  const changed =
    whole(0, 4) === 0
      ? framed(wire, [ofAnotherModel(greeting, whole(0, 63))])
      : harmed(wire, [greeting], harms[whole(0, harms.length - 1)] ?? 'raw', whole, {
          others: [run.results.hello, run.toLast.welcome],
        });
  return { said: framed(wire, said, 1), greeting: [version, ...changed] };
}

function closedOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.on('error', () => undefined).once('close', () => resolve()));
}

/**
 * Says something in some manner, after what was said `before`, and that nothing follows; or stays until the other one
 * has had enough.
 */
async function say(
  { frameOf, HEADER_BYTES }: Wire,
  socket: Socket,
  closed: Promise<void>,
  said: readonly Buffer[],
  manner: Manner,
  before: readonly Buffer[] = [],
): Promise<void> {
  const stays = Promise.race([closed, sleep(STAY_MILLISECONDS, undefined, { ref: false })]);
  const bytes = Buffer.concat(said);
  switch (manner) {
    case 'plain':
    case 'deaf':
      socket.end(bytes);
      return;
    case 'drip':
      for (let at = 0; at < Math.min(bytes.length, DRIPPED_BYTES) && !socket.destroyed; at++) {
        socket.write(bytes.subarray(at, at + 1));
        await new Promise(setImmediate);
      }
      socket.end(bytes.subarray(DRIPPED_BYTES));
      return;
    case 'silent':
      socket.write(bytes);
      await stays;
      return;
    case 'stalled': {
      socket.write(bytes);
      // After the greeting, which is number 0.
      let number = 1;
      const all = Buffer.concat([...before, bytes]);
      for (let at = 0; at < all.length; at += HEADER_BYTES + all.readUInt32LE(at)) number++;
      const signs = setInterval(() => socket.write(Buffer.concat(frameOf('ping', number++, []))), SIGN_MILLISECONDS);
      await stays;
      clearInterval(signs);
    }
  }
}

/** So many who connect, say the beginning of a hello, and leave it at that. */
export function strangers(
  { preamble, frameOf }: Wire,
  target: string,
  count: number,
): { readonly socket: Socket; readonly closed: Promise<void> }[] {
  return Array.from({ length: count }, (_, index) => {
    const socket = connect({ ...endpointOf(target) });
    const closed = closedOf(socket);
    const hello = Buffer.concat([preamble(), ...frameOf('hello', 0, [Buffer.alloc(1000)])]);
    socket.write(hello.subarray(0, index % hello.length));
    socket.resume();
    return { socket, closed };
  });
}

/** Answers whoever dials as the last engine would, and takes what comes. */
async function listenAsLast(
  { frameOf, preamble }: Wire,
  welcome: SentFrame,
): Promise<{ readonly address: string; readonly close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).resume();
    socket.write(
      Buffer.concat([preamble(), ...frameOf('welcome', 0, [welcome.payload]), ...frameOf('credit', 1, [CREDITS])]),
    );
  });
  return {
    address: await listening(server, '127.0.0.1:0'),
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/**
 * Plays the engines of all later layers to the one of the first, for one run.
 *
 * @param at where to listen: `127.0.0.1:0` or `unix:PATH`
 * @param run of that engine, over these addresses
 */
export async function playBehind(
  wire: Wire,
  { toMiddle, results }: RecordedRun,
  { said, manner, greeting }: Impostor,
  at: string,
  run: (addresses: readonly string[]) => Promise<void>,
): Promise<void> {
  const { frameOf, preamble } = wire;
  const sockets = new Set<Socket>();
  let back: { readonly socket: Socket; readonly closed: Promise<void> } | undefined;
  let heard = 0;
  let told = 0;
  const speak = (): void => {
    if (!back) return;
    // A result for each batch that has come, as an honest engine has them; the rest in its manner.
    for (; told < Math.min(said.length - 1, 1 + heard); told++) back.socket.write(said[told] ?? Buffer.alloc(0));
    if (told !== said.length - 1) return;
    void say(wire, back.socket, back.closed, said.slice(told), manner, said.slice(0, told));
    told++;
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    let bytes = Buffer.alloc(0);
    let greeted = false;
    let seen = 0;
    const closed = closedOf(socket);
    // Who is dialled says so first, too.
    for (const piece of greeting ?? [preamble()]) socket.write(piece);
    socket.on('data', (more: Buffer) => {
      bytes = Buffer.concat([bytes, more]);
      const heardHere = framesOf(wire, bytes);
      const [hello] = heardHere;
      if (!greeted && hello) {
        greeted = true;
        const returns = hello.payload[0] === RETURN;
        if (!greeting)
          socket.write(Buffer.concat(frameOf('welcome', 0, [(returns ? results : toMiddle).welcome.payload])));
        if (returns) back = { socket, closed };
        else if (manner === 'deaf') socket.pause();
        else socket.write(Buffer.concat(frameOf('credit', 1, [CREDITS])));
      }
      const hidden = heardHere.filter(({ name }) => name === 'hidden').length;
      heard += hidden - seen;
      seen = hidden;
      speak();
    });
  });
  const address = await listening(server, at);
  try {
    await run([address, address]);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}
