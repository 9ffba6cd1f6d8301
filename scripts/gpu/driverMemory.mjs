// The GPU's memory in use, by the driver's own count: nvidia-smi's, so that nobody has to take the engine's word for
// it.
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const MIB = 2 ** 20;
const run = promisify(execFile);

async function ask(command, query) {
  const { stdout } = await run(command, [`--query-${query}`, '--format=csv,noheader,nounits'], { timeout: 10_000 });
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line.trim() !== '');
}

/**
 * What the driver says now of the first GPU (`deviceBytes`: all programs) and of one process (`processBytes`; undefined
 * where it tells of none, as in most containers).
 * @param command nvidia-smi, or what answers like it
 * @throws Error where there is no such program, or it knows no GPU
 */
export async function readDriver(command = 'nvidia-smi', pid = process.pid) {
  const [used] = await ask(command, 'gpu=memory.used');
  const deviceBytes = Number(used) * MIB;
  if (used === undefined || !(deviceBytes >= 0))
    throw new Error(`${command}: found ${JSON.stringify(used)} as memory in use, expected a number of MiB`);
  const own = (await ask(command, 'compute-apps=pid,used_memory'))
    .map((line) => line.split(',').map(Number))
    .filter(([each, mib]) => each === pid && mib >= 0);
  return { deviceBytes, ...(own.length > 0 && { processBytes: own.reduce((sum, [, mib]) => sum + mib, 0) * MIB }) };
}

/**
 * Asks the driver again and again until `stop`, which resolves to the peaks and how often it was asked.
 * @param read as `readDriver`
 */
export function sampleDriver(read, intervalMilliseconds = 50) {
  const peak = { samples: 0, deviceBytes: 0 };
  let stopped = false;
  let failure;
  const done = (async () => {
    while (!stopped) {
      try {
        const { deviceBytes, processBytes } = await read();
        peak.samples++;
        peak.deviceBytes = Math.max(peak.deviceBytes, deviceBytes);
        if (processBytes !== undefined) peak.processBytes = Math.max(peak.processBytes ?? 0, processBytes);
      } catch (error) {
        failure = error;
      }
      await delay(intervalMilliseconds);
    }
  })();
  return {
    async stop() {
      stopped = true;
      await done;
      if (peak.samples === 0) throw failure ?? new Error('the driver was never asked');
      return peak;
    },
  };
}

/** nvidia-smi counts whole MiB, and the driver gives memory in pieces of 2 MiB. */
const ROUNDING_BYTES = 4 * MIB;

/**
 * Sets what was in use at most beside what was before, when there was a context of CUDA's and nothing else, and the
 * cap.
 * @param before, @param peak of `readDriver` and `sampleDriver`; the process's own count goes first where the driver
 * tells it both times
 */
export function againstCap(before, peak, capBytes) {
  const own = before.processBytes !== undefined && peak.processBytes !== undefined;
  const [contextBytes, peakBytes] = own
    ? [before.processBytes, peak.processBytes]
    : [before.deviceBytes, peak.deviceBytes];
  const usedBytes = peakBytes - contextBytes;
  return {
    counted: own ? 'process' : 'device',
    samples: peak.samples,
    capBytes,
    contextBytes,
    peakBytes,
    usedBytes,
    within: usedBytes <= capBytes + ROUNDING_BYTES,
  };
}
