import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { resultOf, type CliResult } from '../../cli/support.js';
import { built } from '../../jobs/support/built.js';

export interface MeasuredResult extends CliResult {
  /** Undefined where the process ended without a word: killed, or aborted. */
  readonly use: { readonly residentBytes: number; readonly cpuSeconds: number } | undefined;
}

/** Hangs are told from a loaded machine by this; processor time is judged besides. */
const WALL_MILLISECONDS = 570_000;

/** Runs the command line in a process of its own, with what it took. */
export async function runMeasured(args: readonly string[], input: string): Promise<MeasuredResult> {
  const hook = fileURLToPath(new URL('reportUse.mjs', import.meta.url));
  const child = spawn(process.execPath, ['--import', hook, built('cli/main.js'), ...args], {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), WALL_MILLISECONDS);
  let use = '';
  child.stdio[3]?.on('data', (bytes: Buffer) => (use += bytes.toString()));
  child.stdin?.on('error', () => undefined).end(input);
  const result = await resultOf(child);
  clearTimeout(timer);
  return { ...result, use: use === '' ? undefined : (JSON.parse(use) as NonNullable<MeasuredResult['use']>) };
}
