import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server of the machine's, on a port of its own on loopback, with a folder of its own for what it stores. */
export interface DatabaseServer extends AsyncDisposable {
  readonly port: number;
  /** Started again on the same store; waits until it answers. */
  begin(): Promise<void>;
  end(signal: NodeJS.Signals): Promise<void>;
}

const READY_SECONDS = 300;
const DEBIAN_POSTGRES = '/usr/lib/postgresql';

/** Where `initdb` and `postgres` are, of the newest version; undefined where there are none. */
export function postgresFolder(): string | undefined {
  const versions = existsSync(DEBIAN_POSTGRES) ? readdirSync(DEBIAN_POSTGRES) : [];
  return versions
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN_POSTGRES, version, 'bin'))
    .find((folder) => existsSync(join(folder, 'initdb')));
}

/** The path of `nats-server`; undefined where there is none. */
export function natsServerPath(): string | undefined {
  return [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin']
    .map((folder) => join(folder, 'nats-server'))
    .find((path) => existsSync(path));
}

/** Postgres, which lets in everybody on loopback. @param bin where its programs are */
export async function postgresServer(bin: string, flags: readonly string[] = []): Promise<DatabaseServer> {
  // A folder of the test's would be its user's alone.
  const data = mkdtempSync(join(tmpdir(), 'spillway-postgres-'));
  const user = unprivileged();
  if (user !== undefined) chownSync(data, user.uid, user.gid);
  execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'spillway', '--no-sync'], {
    ...user,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const port = await freePort();
  const own = ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', '', '-c', 'fsync=off', ...flags];
  return serverOf({
    port,
    data,
    start: () => spawn(join(bin, 'postgres'), own, { ...user, cwd: '/', stdio: 'ignore' }),
    isReady: () => {
      try {
        execFileSync(join(bin, 'pg_isready'), ['-h', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' });
        return Promise.resolve(true);
      } catch {
        return Promise.resolve(false);
      }
    },
  });
}

/** NATS with JetStream. */
export async function natsServer(path: string, flags: readonly string[] = []): Promise<DatabaseServer> {
  const data = mkdtempSync(join(tmpdir(), 'spillway-nats-'));
  const port = await freePort();
  return serverOf({
    port,
    data,
    start: () =>
      spawn(path, ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', data, ...flags], { cwd: '/', stdio: 'ignore' }),
    isReady: () => answers(port),
  });
}

interface ServerParts {
  readonly port: number;
  readonly data: string;
  start(): ChildProcess;
  isReady(): Promise<boolean>;
}

async function serverOf({ port, data, start, isReady }: ServerParts): Promise<DatabaseServer> {
  let child: ChildProcess | undefined;
  const hasEnded = (): boolean => child === undefined || child.exitCode !== null || child.signalCode !== null;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || hasEnded()) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  const begin = async (): Promise<void> => {
    for (let waited = 0; waited < READY_SECONDS * 20; waited += 1) {
      // One that was killed may leave what keeps the next one from starting for a moment: its own processes, or its
      // port, which somebody's connection to elsewhere has got.
      if (hasEnded()) child = start();
      if (await isReady()) return;
      await sleep(50);
    }
    await end('SIGKILL');
    throw new Error('the server does not answer');
  };
  // Nothing of it outlives this process.
  const kill = (): void => void child?.kill('SIGKILL');
  process.once('exit', kill);
  await begin();
  return {
    port,
    begin,
    end,
    [Symbol.asyncDispose]: async () => {
      process.off('exit', kill);
      await end('SIGKILL');
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** Who Postgres runs as: it refuses to be root. */
function unprivileged(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not bound');
  await new Promise((resolve) => server.close(resolve));
  return address.port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const end = (answered: boolean): void => {
      socket.destroy();
      resolve(answered);
    };
    socket.once('data', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}
