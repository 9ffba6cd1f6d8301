import { chmodSync, existsSync, lstatSync, unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { UsageError } from '../../../errors/UsageError.js';

/**
 * Makes room for a Unix socket: what a process that is gone has left is removed.
 * @throws UsageError where there is no folder for it, somebody listens there, or something else lies there
 */
export async function freeUnixSocket(path: string): Promise<void> {
  if (!existsSync(dirname(path)))
    throw new UsageError(`address: found no folder ${dirname(path)} for unix:${path}, expected one that is there`);
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (!there) return;
  if (!there.isSocket())
    throw new UsageError(`address: found something else at unix:${path}, expected a socket or nothing`);
  if (await answers(path)) throw new UsageError(`address: found somebody who listens at unix:${path}, expected nobody`);
  unlinkSync(path);
}

/** Its owner's alone, whatever the umask says. */
export function ownUnixSocket(path: string): void {
  chmodSync(path, 0o600);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.destroy();
      resolve(error.code !== 'ECONNREFUSED');
    });
  });
}
