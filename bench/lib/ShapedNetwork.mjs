// Network namespaces whose links have a rate and a delay: a switch of our own between them (shapedLink.py), since not
// every kernel has netem. Linux and root; nothing of it is reached from outside, and all of it goes with `close`.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SWITCH = fileURLToPath(new URL('shapedLink.py', import.meta.url));

const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });

/** Answers each byte by a byte; and asks so often, and says what the median took. */
const ANSWERS = `
import socket
server = socket.create_server(("0.0.0.0", 7001))
print("up", flush=True)
end, _ = server.accept()
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while end.recv(1): end.send(b"x")
`;
const ASKS = `
import socket, statistics, sys, time
end = socket.create_connection((sys.argv[1], 7001))
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def asked():
    start = time.monotonic(); end.send(b"x"); end.recv(1)
    return time.monotonic() - start
print(statistics.median(asked() for _ in range(101)))
`;

/** @returns why there can be none here, or undefined */
export function whyUnshaped() {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'network namespaces need Linux and root';
  const name = `spillway-try-${process.pid}`;
  try {
    ip('netns', 'add', name);
    ip('netns', 'del', name);
    execFileSync('python3', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch (error) {
    return `ip netns and python3 are needed: ${error.message}`;
  }
}

export class ShapedNetwork {
  /**
   * @param ends how many namespaces
   * @param link `bitsPerSecond` each way between each two of them, and `delaySeconds` of each way
   */
  static async open(ends, { bitsPerSecond, delaySeconds }) {
    const network = new ShapedNetwork(ends);
    try {
      ip('netns', 'add', network.hub);
      const ports = Array.from({ length: ends }, (_, at) => network.#join(at));
      network.process = spawn(
        'ip',
        ['netns', 'exec', network.hub, 'python3', SWITCH, String(bitsPerSecond), String(delaySeconds), ...ports],
        { stdio: ['pipe', 'pipe', 'inherit'] },
      );
      network.process.stdout.on('data', (text) => (network.said += text));
      const [first] = await Promise.race([once(network.process.stdout, 'data'), once(network.process, 'close')]);
      if (!String(first).startsWith('ready')) throw new Error(`the switch has ended with ${String(first)}`);
      return network;
    } catch (error) {
      await network.close();
      throw error;
    }
  }

  constructor(ends) {
    this.ends = ends;
    this.name = `spillway-${process.pid}`;
    this.hub = `${this.name}-hub`;
    this.said = '';
  }

  /** Of an end, as the others reach it. */
  hostOf(at) {
    return `10.77.0.${at + 1}`;
  }

  /** What runs a command at an end. */
  at(at, ...command) {
    return ['ip', 'netns', 'exec', `${this.name}-${at}`, ...command];
  }

  /** From the first end to the second and back, a byte each way: what a switch of our own takes beside the delay, too. */
  async roundTripSeconds() {
    const [file, ...args] = this.at(1, 'python3', '-c', ANSWERS);
    const server = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await Promise.race([once(server.stdout, 'data'), once(server, 'close')]);
      const [ip, ...asking] = this.at(0, 'python3', '-c', ASKS, this.hostOf(1));
      return Number(execFileSync(ip, asking, { encoding: 'utf8' }));
    } finally {
      server.kill();
    }
  }

  /** @returns what the switch has to say: bytes that it moved, frames that it dropped, how late it was at most */
  async close() {
    let figures;
    if (this.process) {
      const ended = this.process.exitCode === null ? once(this.process, 'close') : undefined;
      this.process.stdin.end();
      await ended;
      figures = JSON.parse(this.said.split('\n')[1] || '{}');
    }
    for (const name of [this.hub, ...Array.from({ length: this.ends }, (_, at) => `${this.name}-${at}`)])
      try {
        ip('netns', 'del', name);
      } catch {
        // It was not made.
      }
    return figures;
  }

  /** @returns the interface in the hub that leads to an end */
  #join(at) {
    const [end, port] = [`${this.name}-${at}`, `port${at}`];
    ip('netns', 'add', end);
    ip('link', 'add', 'eth0', 'netns', end, 'type', 'veth', 'peer', 'name', port, 'netns', this.hub);
    ip('-n', end, 'addr', 'add', `${this.hostOf(at)}/24`, 'dev', 'eth0');
    for (const device of ['lo', 'eth0']) ip('-n', end, 'link', 'set', device, 'up');
    ip('-n', this.hub, 'link', 'set', port, 'up');
    return port;
  }
}
