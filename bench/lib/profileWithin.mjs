// The profiles of small machines (MachineCap), as `spillway profile` finds them that runs there.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseHardware } from '../../dist/api/plan.js';
import { MachineCap } from './MachineCap.mjs';

const PROGRAM = fileURLToPath(new URL('../../dist/cli/spillway.js', import.meta.url));

/** A bound on the disk is taken at its word: the kernel lets short measurements through in bursts, or keeps them back. */
export function atBound(hardware, bytesPerSecond) {
  const { links, diskRequests } = hardware;
  return {
    ...hardware,
    links: { ...links, diskReadBytesPerSecond: bytesPerSecond },
    diskRequests: diskRequests?.map((each) => (each.operation === 'write' ? each : { ...each, bytesPerSecond })),
  };
}

async function measure(bounds, name) {
  const { disk } = bounds;
  const folder = mkdtempSync(join(tmpdir(), 'spillway-profile-'));
  const cap = new MachineCap(bounds, name);
  try {
    const file = join(folder, 'machine.json');
    const where = disk === undefined ? ['--disk-size', '0'] : ['--disk', disk.folder];
    const flags = ['profile', '--output', file, ...where, '--threads', '1', '--progress', 'off'];
    const [program, ...args] = cap.around(process.execPath, PROGRAM, ...flags);
    // What was measured here outside of the bounds is of another machine.
    await promisify(execFile)(program, args, { env: { ...process.env, XDG_CACHE_HOME: folder } });
    const hardware = parseHardware(JSON.parse(readFileSync(file, 'utf8')));
    return disk === undefined ? hardware : atBound(hardware, disk.bytesPerSecond);
  } finally {
    cap.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * With a bound on the disk the one below its folder is measured, else none.
 * @param bounds of each of the machines that will compute at once; all are measured at once, since they have one
 * machine's processors, caches and memory in common
 * @returns {Promise<object[]>} hardware files
 */
export async function profileWithin(bounds) {
  const profiles = await Promise.allSettled(bounds.map((each, index) => measure(each, `profile-${index}`)));
  return profiles.map(({ value, reason }) => {
    if (value === undefined) throw reason;
    return value;
  });
}
