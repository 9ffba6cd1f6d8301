import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  JobFileError,
  parsePeerAddress,
  SOCKET_OPTIONS,
  UsageError,
  type HiddenStates,
  type LayerRange,
  type LayerShare,
  type PeerCertificates,
  type SocketOptions,
} from '../library.js';
import { checkedText, decimal, path } from './parsers.js';
import { shortFile } from './textFiles.js';

/** How engines of other layers are reached. */
export interface PeerFlags {
  readonly tlsKey?: string;
  readonly tlsCert?: string;
  readonly tlsCa?: string;
  readonly sharedKeyFile?: string;
  readonly connectTimeout: number;
  readonly silenceTimeout: number;
  readonly stallTimeout: number;
  readonly hiddenStates: HiddenStates;
}

/** Keys and certificates are short. */
const MOST_FILE_BYTES = 2 ** 20;

export function addPeerFlags(command: Command): void {
  command.addOption(
    new Option(
      '--shared-key-file <file>',
      'a secret of 32 bytes or more, the same in all engines, which then encrypt (default: none; on one machine none is needed)',
    ).argParser(path),
  );
  for (const [flag, what] of [
    ['--tls-key', "instead of a shared key: this engine's private key, PEM"],
    ['--tls-cert', 'its certificate, PEM'],
    ['--tls-ca', 'the authority whose certificates all engines have; whoever has one is let in'],
  ] as const)
    command.addOption(new Option(`${flag} <file>`, `${what} (default: none)`).argParser(path));
  command.option(
    '--connect-timeout <seconds>',
    'how long an engine is waited for that does not listen yet, or serves another run',
    decimal(SOCKET_OPTIONS.connectSeconds),
    SOCKET_OPTIONS.connectSeconds.fallback,
  );
  command.option(
    '--silence-timeout <seconds>',
    'an engine that gives no sign of life for so long is gone, and ends the run',
    decimal(SOCKET_OPTIONS.silenceSeconds),
    SOCKET_OPTIONS.silenceSeconds.fallback,
  );
  command.option(
    '--stall-timeout <seconds>',
    'so long engines may take over one batch and give signs of life alone',
    decimal(SOCKET_OPTIONS.stallSeconds),
    SOCKET_OPTIONS.stallSeconds.fallback,
  );
  addHiddenStates(
    command,
    'how engines send hidden states, the same in all of them; bfloat16 changes results a little, by where layers are cut',
  );
}

export function addHiddenStates(command: Command, words: string): void {
  const { among, fallback } = SOCKET_OPTIONS.hiddenStates;
  command.addOption(new Option('--hidden-states <type>', words).choices(among).default(fallback));
}

/** An address, as the library judges it. */
export const address = checkedText((text) => {
  parsePeerAddress(text);
});

/** A list of addresses, with commas. */
export function addresses(text: string): readonly string[] {
  return text.split(',').map((part) => address(part.trim()));
}

/** `A-B`: the first and the last layer, counted from 0. */
export function layerRange(text: string): LayerRange {
  const [, first, last] = /^(\d{1,9})-(\d{1,9})$/.exec(text) ?? [];
  if (first === undefined || last === undefined || Number(last) < Number(first))
    throw new InvalidArgumentError('Expected A-B, the numbers of the first and the last layer, counted from 0.');
  return { first: Number(first), count: Number(last) - Number(first) + 1 };
}

/** `K/N` or `K/N:rows`: which share of each layer, counted from 0, of how many; rows: attention is divided by these. */
export function layerShare(text: string): LayerShare {
  const [, index, of, rows] = /^(\d{1,9})\/(\d{1,9})(:rows)?$/.exec(text) ?? [];
  if (index === undefined || of === undefined || Number(index) < 1 || Number(index) >= Number(of))
    throw new InvalidArgumentError(
      'Expected K/N or K/N:rows, K from 1 to N - 1: share 0 is that of the engine that generates.',
    );
  return { index: Number(index), of: Number(of), ...(rows !== undefined && { attention: 'rows' }) };
}

/** The files that the flags name. */
export function peerFiles({
  tlsKey,
  tlsCert,
  tlsCa,
  sharedKeyFile,
}: PeerFlags): Readonly<Record<string, string | undefined>> {
  return { 'tls-key': tlsKey, 'tls-cert': tlsCert, 'tls-ca': tlsCa, 'shared-key-file': sharedKeyFile };
}

/** Turns flags into socket options, with these files read. @throws UsageError, JobFileError */
export async function socketOptions(flags: PeerFlags, signal: AbortSignal): Promise<SocketOptions> {
  const { connectTimeout, silenceTimeout, stallTimeout, hiddenStates, sharedKeyFile } = flags;
  const tls = await certificates(flags, signal);
  return {
    connectSeconds: connectTimeout,
    silenceSeconds: silenceTimeout,
    stallSeconds: stallTimeout,
    hiddenStates,
    signal,
    // An editor ends a file with a line feed, or does not.
    ...(sharedKeyFile !== undefined && {
      sharedKey: (await read('--shared-key-file', sharedKeyFile, signal)).toString('latin1').trimEnd(),
    }),
    ...(tls && { tls }),
  };
}

async function certificates(
  { tlsKey, tlsCert, tlsCa }: PeerFlags,
  signal: AbortSignal,
): Promise<PeerCertificates | undefined> {
  if (tlsKey === undefined && tlsCert === undefined && tlsCa === undefined) return undefined;
  if (tlsKey === undefined || tlsCert === undefined || tlsCa === undefined)
    throw new UsageError('found some of --tls-key, --tls-cert and --tls-ca, expected all of them or none');
  const of = {
    key: await read('--tls-key', tlsKey, signal),
    cert: await read('--tls-cert', tlsCert, signal),
    ca: await read('--tls-ca', tlsCa, signal),
  };
  checkPem(tlsKey, 'a private key in PEM, without a passphrase', () => createPrivateKey(of.key));
  checkPem(tlsCert, 'certificates in PEM', () => createSecureContext({ cert: of.cert }));
  checkPem(tlsCa, 'certificates in PEM', () => new X509Certificate(of.ca));
  checkPem(tlsKey, `the key of ${tlsCert}`, () => createSecureContext({ key: of.key, cert: of.cert }));
  return of;
}

/** @throws JobFileError for a file that is not what it is read as */
function checkPem(file: string, expected: string, read: () => unknown): void {
  try {
    read();
  } catch (error) {
    throw new JobFileError(file, `found what cannot be read so (${(error as Error).message}), expected ${expected}`);
  }
}

function read(flag: string, file: string, signal: AbortSignal): Promise<Buffer> {
  return shortFile([flag, 'a file'], file, MOST_FILE_BYTES, 'a key or a certificate', signal);
}
