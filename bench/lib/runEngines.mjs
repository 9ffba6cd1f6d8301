// Engines that share a model, each a process on a small machine of its own: bench/lib/shapedEngine.mjs, told what to do.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { MachineCap } from './MachineCap.mjs';
import { ShapedNetwork } from './ShapedNetwork.mjs';

const ENGINE = fileURLToPath(new URL('shapedEngine.mjs', import.meta.url));
/** That engines and servers listen on, each in a namespace of its own. */
export const PORT = 7000;

/** A process of one engine that talks in lines of JSON. */
class EngineProcess {
  constructor(command, told) {
    const [file, ...args] = [...command, process.execPath, ENGINE, JSON.stringify(told)];
    this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async next() {
    const { done, value } = await this.lines.next();
    if (done) throw new Error('an engine has ended before it was to');
    const said = JSON.parse(value);
    if (said.error) throw new Error(said.error);
    return said;
  }

  go() {
    this.child.stdin.write('\n');
  }

  async close() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'close');
    this.child.kill('SIGKILL');
    await ended;
  }
}

/**
 * Opens small machines, one for each of `bounds` (see MachineCap), over links like this one; calls `use` with how a
 * command is run on each, and puts all away.
 *
 * @param {{bounds: object[], link?: object}} machines `link`: none for one machine alone
 * @param {(at: (machine: number) => string[], hostOf: (machine: number) => string) => Promise<T>} use
 * @returns {Promise<{result: T, network?: object}>} `network`: what ShapedNetwork.close says
 * @template T
 */
export async function onMachines({ bounds, link }, use) {
  const caps = [];
  const network = link && (await ShapedNetwork.open(bounds.length, link));
  let figures;
  let result;
  try {
    bounds.forEach((each, index) => caps.push(new MachineCap(each, String(index))));
    result = await use(
      (machine) => caps[machine].around(...(network ? network.at(machine) : [])),
      (machine) => network.hostOf(machine),
    );
  } finally {
    for (const cap of caps) cap.close();
    figures = await network?.close();
  }
  return { result, network: figures };
}

/**
 * Runs rows through engines that share a model's layers, `repeat` times, and a few of them before to warm up.
 *
 * @param {{engines: object[], bounds: object[], link?: object, rows: object[], run: object, sockets?: object, repeat: number, stop: AbortSignal}} job
 * `engines`: of each, options of `Engine.open`; `run`: of the first one's `generate`
 * @returns {Promise<{load: number, network?: object, runs: {tokens: number, wallSeconds: number, results: string, processorSeconds: number[], ownSeconds: number[]}[]}>}
 * `processorSeconds` of each engine, of which threads that do not compute have had `ownSeconds`
 */
export async function runEngines({ engines, bounds, link, rows, run, sockets = {}, repeat, stop }) {
  const shared = { sharedKey: randomBytes(32).toString('hex'), ...sockets };
  const opened = [];
  const end = () => Promise.all(opened.map((engine) => engine.close()));
  let load = 0;
  stop.addEventListener('abort', end);
  try {
    const { result, network } = await onMachines({ bounds, link }, async (at, hostOf) => {
      try {
        const peers = engines.slice(1).map((_, index) => `${hostOf(index + 1)}:${PORT}`);
        // From the last one: whoever connects finds all of them.
        for (let index = engines.length - 1; index >= 0; index--) {
          const engine = new EngineProcess(at(index), {
            engine: engines[index],
            ...(index > 0 ? { listen: `${hostOf(index)}:${PORT}` } : { rows, ...(peers.length > 0 && { peers }) }),
            run,
            sockets: shared,
          });
          opened.unshift(engine);
          await engine.next();
        }
        const measured = [];
        for (let turn = 0; turn <= repeat; turn++) {
          opened[0].go();
          const said = await Promise.all(opened.map((engine) => engine.next()));
          load = Math.max(load, loadavg()[0]);
          if (turn > 0)
            measured.push({
              ...said[0],
              processorSeconds: said.map(({ processorSeconds }) => processorSeconds),
              ownSeconds: said.map(({ ownSeconds }) => ownSeconds),
            });
        }
        return measured;
      } finally {
        await end();
      }
    });
    return { load, network, runs: result };
  } finally {
    stop.removeEventListener('abort', end);
  }
}
