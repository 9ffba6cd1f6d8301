import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import type { MachineFacts } from '../../src/bindings/Addon.js';

/** What is used of it here. */
interface Cap {
  around(...command: readonly string[]): string[];
  close(): void;
}
const where = '../../bench/lib/MachineCap.mjs';
const { MachineCap } = (await import(where)) as {
  readonly MachineCap: new (bounds: { processors?: number; memoryBytes?: number }, name: string) => Cap;
};
const ADDON =
  process.env['SPILLWAY_ADDON'] ?? fileURLToPath(new URL('../../native/build/Release/spillway.node', import.meta.url));

/** Why there are no groups here: they take Linux, root and controllers. */
function whyNot(): string | undefined {
  try {
    new MachineCap({ processors: 0.5, memoryBytes: 2 ** 28 }, 'try').close();
    return undefined;
  } catch (error) {
    return String(error);
  }
}

(whyNot() === undefined ? test : test.skip)('a process finds the machine that its cgroups leave it', () => {
  const cap = new MachineCap({ processors: 0.45, memoryBytes: 2 ** 29 }, 'test');
  try {
    const program = `console.log(JSON.stringify(require(${JSON.stringify(ADDON)}).machine()))`;
    const [file = '', ...args] = cap.around(process.execPath, '-e', program);
    const machine = JSON.parse(execFileSync(file, args, { encoding: 'utf8' })) as MachineFacts;
    expect(machine).toMatchObject({ processors: 1, processorSeconds: 0.45, memoryBytes: 2 ** 29 });
  } finally {
    cap.close();
  }
});
