// llama.cpp over several machines: its rpc backend, a server on each but the first.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onMachines, PORT } from '../lib/runEngines.mjs';
import { batchedBenchArguments, readBatchedBench } from './batchedBench.mjs';

/** A server says nothing when it is ready. */
const STARTING_MILLISECONDS = 3000;

const serverBeside = (program) => join(dirname(program), 'ggml-rpc-server');

/** @returns why it is not run, or undefined */
export function whyNoRpc(program) {
  return existsSync(program) && existsSync(serverBeside(program))
    ? undefined
    : 'not built with its rpc server: node bench/peers/buildLlamaCpp.mjs';
}

/**
 * The first machine computes its share of the layers itself, the others by a server each. The figures are those of
 * prompts and answers, without loading, for which the weights go over the links.
 *
 * @param {{program: string, model: string, layers: number, bounds: object[], link: object, work: {rows: number, promptTokens: number, maxNewTokens: number}, timeLimitSeconds: number, stop: AbortSignal}} job
 * `program`: llama-batched-bench; `bounds`, `link`: see onMachines; `rows`: sequences at once, each with a thread's work
 * @returns what readBatchedBench says; throws an Error where it ends, or is ended, without figures
 */
export async function runRpc({ program, model, layers, bounds, link, work, timeLimitSeconds, stop }) {
  const { result } = await onMachines({ bounds, link }, async (at, hostOf) => {
    const children = [];
    const start = (machine, command) => {
      const [file, ...args] = [...at(machine), ...command];
      const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      children.push({ child, ended: once(child, 'close') });
      return child;
    };
    const end = () => children.forEach(({ child }) => child.kill('SIGKILL'));
    stop.addEventListener('abort', end);
    try {
      const servers = bounds.slice(1).map((_, index) => {
        const host = hostOf(index + 1);
        const server = start(index + 1, [serverBeside(program), '-H', host, '-p', String(PORT), '-t', '1']);
        server.stdout.resume();
        server.stderr.resume();
        return `${host}:${PORT}`;
      });
      await sleep(STARTING_MILLISECONDS, undefined, { signal: stop });
      const given = ['--rpc', servers.join(','), '-ngl', String(Math.round((layers * servers.length) / bounds.length))];
      const args = batchedBenchArguments({ ...work, model, threads: 1 }, { sequences: work.rows, arguments: given });
      const bench = start(0, [program, ...args]);
      let output = '';
      for (const stream of [bench.stdout, bench.stderr]) stream.on('data', (text) => (output += text));
      const limit = setTimeout(() => bench.kill('SIGKILL'), 1000 * timeLimitSeconds);
      await children.at(-1).ended;
      clearTimeout(limit);
      const figures = readBatchedBench(output);
      if (!figures) throw new Error(`llama.cpp over rpc ended without figures: ${output.slice(-600)}`);
      return figures;
    } finally {
      stop.removeEventListener('abort', end);
      end();
      await Promise.all(children.map(({ ended }) => ended));
    }
  });
  return result;
}
