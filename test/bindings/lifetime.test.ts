import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { makeTinyModel, type TinyModel } from './support/tinyModel.js';

// What happens at the end of objects, threads and processes is tried in processes of their own.

const addonPath = process.env['SPILLWAY_ADDON'] ?? join(process.cwd(), 'native/build/Release/spillway.node');
let model: TinyModel;
let prelude: string;

beforeAll(() => {
  model = makeTinyModel();
  const options = join(dirname(model.file), 'options.json');
  writeFileSync(
    options,
    JSON.stringify(model.options(), (_, value: unknown) =>
      value instanceof Float32Array ? { floats: [...value] } : value,
    ),
  );
  prelude = `
    const addon = require(${JSON.stringify(addonPath)});
    const options = JSON.parse(require('node:fs').readFileSync(${JSON.stringify(options)}, 'utf8'),
      (_, value) => (value !== null && typeof value === 'object' && 'floats' in value ? Float32Array.from(value.floats) : value));
    const open = async () => { const runtime = addon.openRuntime(options); await runtime.load(() => {}); return runtime; };
    const flood = (runtime, tasks) => {
      const row = runtime.createRow({ tokens: new Int32Array(60), capacityTokens: 60, temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0, logprobs: -1 });
      const batch = runtime.createBatch(Int32Array.of(row, 0, 60, 0, 0, 4, -1), Int32Array.of(0, 1, 2, 3));
      const activations = runtime.createActivations(60);
      for (let i = 0; i < tasks; i++) runtime.submitCompute(1 + (i % 3), i % 2, batch, activations, []);
    };
  `;
});
afterAll(() => model.remove());

function run(script: string, flags: readonly string[] = []): string {
  const result = spawnSync(process.execPath, [...flags, '-e', `${prelude}\n(async () => {${script}})();`], {
    encoding: 'utf8',
    timeout: 570_000,
  });
  if (result.status !== 0)
    throw new Error(`exit ${String(result.status)}, signal ${String(result.signal)}: ${result.stderr}`);
  return result.stdout.trim();
}

describe('the addon', () => {
  test('lets the process end while a runtime is open and idle', () => {
    expect(run(`const runtime = await open(); runtime.onCompleted(() => {}); console.log('idle');`)).toBe('idle');
  });

  test('keeps the process alive while tasks are under way', () => {
    expect(
      run(
        `const runtime = await open(); let done = 0; runtime.onCompleted((c) => { done += c.events.length / 4; if (done === 300) console.log('all'); }); flood(runtime, 300);`,
      ),
    ).toBe('all');
  });

  test('survives process.exit() with work in flight', () => {
    expect(
      run(
        `const runtime = await open(); runtime.onCompleted(() => {}); flood(runtime, 5000); console.log('bye'); process.exit(0);`,
      ),
    ).toBe('bye');
  });

  test('is collected without close(), with its threads', () => {
    expect(
      run(
        `for (let i = 0; i < 30; i++) { const runtime = await open(); runtime.onCompleted(() => {}); flood(runtime, 20); }
         while (threads() >= 20) { global.gc(); await new Promise((resolve) => setTimeout(resolve, 10)); }
         function threads() { return process.platform === 'linux' ? require('node:fs').readdirSync('/proc/self/task').length : 0; }
         console.log(threads() < 20);`,
        ['--expose-gc'],
      ),
    ).toBe('true');
  });

  test('close() cancels what waits, reports it, and may be called again', () => {
    expect(
      run(
        `const runtime = await open(); let done = 0, cancelled = 0;
         runtime.onCompleted((c) => { done += c.events.length / 4; cancelled += c.errors.filter((e) => e.code === 'cancelled').length; });
         flood(runtime, 40_000);
         await Promise.all([runtime.close(), runtime.close()]); await runtime.close();
         let code; try { runtime.cancelAll(); } catch (error) { code = error.code; }
         console.log(done, cancelled > 0, code, runtime.bytes.weights > 0);`,
      ),
    ).toBe('40000 true invalid-argument true');
  });

  test('close() during load() ends it', () => {
    expect(
      run(
        `const runtime = addon.openRuntime(options); const load = runtime.load(() => {}).then(() => 'loaded', (error) => error.code);
         await runtime.close(); console.log(['loaded', 'cancelled'].includes(await load));`,
      ),
    ).toBe('true');
  });

  test('an exception in a callback is an uncaught exception, and nothing is lost', () => {
    expect(
      run(
        `let caught = 0, done = 0; process.on('uncaughtException', () => caught++);
         const runtime = addon.openRuntime(options); await runtime.load(() => { throw new Error('progress'); });
         runtime.onCompleted((c) => { done += c.events.length / 4; throw new Error('completed'); });
         flood(runtime, 200); while (done < 200) await new Promise((resolve) => setTimeout(resolve, 1));
         console.log(done, caught >= 1);`,
      ),
    ).toBe('200 true');
  });

  test('a worker may be terminated with work in flight, again and again', () => {
    expect(
      run(
        `const { Worker } = require('node:worker_threads');
         const code = \`\${source}; (async () => { const runtime = await open(); runtime.onCompleted(() => {}); flood(runtime, 3000); require('node:worker_threads').parentPort.postMessage(0); })();\`;
         for (let i = 0; i < 8; i++) {
           const worker = new Worker(code, { eval: true });
           await new Promise((resolve) => worker.once('message', resolve));
           await worker.terminate();
         }
         const runtime = await open(); runtime.onCompleted(() => {}); flood(runtime, 10); await runtime.close();
         console.log('alive');`.replace(
          'const { Worker }',
          `const source = ${JSON.stringify(prelude)}; const { Worker }`,
        ),
      ),
    ).toBe('alive');
  });
});
