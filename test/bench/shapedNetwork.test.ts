import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';

/** What is used of it here. */
interface Network {
  at(end: number, ...command: readonly string[]): string[];
  hostOf(end: number): string;
  roundTripSeconds(): Promise<number>;
  close(): Promise<{ readonly bytes: number } | undefined>;
}
const where = '../../bench/lib/ShapedNetwork.mjs';
const { ShapedNetwork, whyUnshaped } = (await import(where)) as {
  readonly ShapedNetwork: {
    open(ends: number, link: { readonly bitsPerSecond: number; readonly delaySeconds: number }): Promise<Network>;
  };
  readonly whyUnshaped: () => string | undefined;
};

const BYTES = 2_000_000;
const LINK = { bitsPerSecond: 4e7, delaySeconds: 0.03 };
/** Answers a byte by a byte, and all that comes then by its hash. */
const SERVER = `
import hashlib, socket
server = socket.create_server(("0.0.0.0", 7000))
print("up", flush=True)
end, _ = server.accept()
end.send(end.recv(1))
hash = hashlib.sha256()
while bytes := end.recv(65536): hash.update(bytes)
end.send(hash.digest())
`;
const CLIENT = `
import hashlib, json, os, socket, sys, time
end = socket.create_connection((sys.argv[1], 7000), 60)
start = time.monotonic(); end.send(b"x"); end.recv(1); round = time.monotonic() - start
data = os.urandom(${BYTES})
start = time.monotonic(); end.sendall(data); end.shutdown(socket.SHUT_WR)
same = end.recv(32) == hashlib.sha256(data).digest()
print(json.dumps({"round": round, "transfer": time.monotonic() - start, "same": same}))
`;

/** Needs root; how late a busy machine is has no bound, so only what links may not do sooner is looked at. */
(whyUnshaped() === undefined ? test : test.skip)(
  'a shaped network moves bytes as they are, no sooner than its delay and rate allow',
  async () => {
    const network = await ShapedNetwork.open(3, LINK);
    try {
      expect(await network.roundTripSeconds()).toBeGreaterThanOrEqual(2 * LINK.delaySeconds);
      const [file = '', ...args] = network.at(2, 'python3', '-c', SERVER);
      const server = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(server.stdout, 'data');
      const [ip = '', ...more] = network.at(0, 'python3', '-c', CLIENT, network.hostOf(2));
      const { stdout } = await promisify(execFile)(ip, more);
      const { round, transfer, same } = JSON.parse(stdout) as { round: number; transfer: number; same: boolean };
      expect(same).toBe(true);
      expect(round).toBeGreaterThanOrEqual(2 * LINK.delaySeconds);
      expect(transfer).toBeGreaterThanOrEqual((8 * BYTES) / LINK.bitsPerSecond + 2 * LINK.delaySeconds);
    } finally {
      const figures = await network.close();
      expect(figures?.bytes).toBeGreaterThan(BYTES);
    }
  },
);
