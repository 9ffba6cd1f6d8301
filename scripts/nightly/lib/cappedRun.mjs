// The command line in a process and a memory cgroup of its own: what it took, and how long it kept the event loop.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MemoryCap } from '../../../bench/lib/memoryCap.mjs';
import { runProcess } from '../../../bench/lib/runProcess.mjs';
import { MAIN } from './commandLine.mjs';

export const MIB = 2 ** 20;
/** The group has so many bytes more than the cap that the process is told. */
export const BESIDE = 32 * MIB;
/** A turn of the event loop takes no more of the processor than this. */
const TURN_MILLISECONDS = 100;
const TURNS = fileURLToPath(new URL('longestTurn.mjs', import.meta.url));

/** A group, or undefined (said once) where there can be none. */
function group(campaign, bytes) {
  try {
    return new MemoryCap(bytes);
  } catch (error) {
    if (campaign.figure('processes') === 0) campaign.say(`without cgroups: ${error.message}`);
    return undefined;
  }
}

/**
 * Runs the command line.
 * @param args of the command, its `--cpu-memory` among them
 * @param turns the file that its longest turn is written to
 * @param groupBytes of its cgroup; undefined: it runs without
 * @returns what `runProcess` gives, `oomKills`, all `args`, and `longestTurn` with its `longestTurnMs` and `at`
 */
export async function cappedRun(campaign, { args: own, turns, groupBytes, timeLimitSeconds }) {
  const memory = groupBytes === undefined ? undefined : group(campaign, groupBytes);
  const args = ['--import', TURNS, MAIN, ...own];
  const result = await runProcess(process.execPath, args, {
    signal: campaign.signal,
    timeLimitSeconds,
    ...(memory && { cgroup: memory.folder }),
    env: { XDG_CACHE_HOME: join(campaign.folder, 'cache'), SPILLWAY_TURNS: turns },
  });
  const { oomKills } = memory?.figures() ?? { oomKills: 0 };
  memory?.close();
  const longestTurn = existsSync(turns) ? JSON.parse(readFileSync(turns, 'utf8')) : { longestTurnMs: 0, at: 0 };
  return { ...result, oomKills, args, longestTurn };
}

/**
 * Looks at how a process ended under its cap, and reports what is wrong.
 * @param codes that it may end with
 */
export function judgeRun(result, { capBytes, codes, campaign, wrong }) {
  const { longestTurnMs, at } = result.longestTurn;
  campaign.count('processes');
  campaign.set('longest turn ms', Math.max(campaign.figure('longest turn ms'), longestTurnMs));
  if (result.oomKills > 0) wrong('killed by the kernel for memory');
  if (result.timedOut) wrong('hung');
  if (result.signal !== null || !codes.includes(result.code))
    wrong(`ended with ${result.signal ?? result.code}, expected ${codes.join(' or ')}`);
  if (result.peakResidentBytes > capBytes + BESIDE)
    wrong(`${Math.ceil(result.peakResidentBytes / MIB)} MiB resident under a cap of ${Math.ceil(capBytes / MIB)}`);
  if (longestTurnMs > TURN_MILLISECONDS) wrong(`a turn of ${longestTurnMs} ms, ${at} s after the start`);
}
