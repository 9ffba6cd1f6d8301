import { found } from '../../arguments/found.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { listMissing } from '../../model/files/printable.js';
import type { InputPaths } from '../input/inputFiles.js';
import { partPath } from './attempts.js';
import type { ShardState, WorkSource } from './WorkSource.js';

/** Shards that were given up of which each is told. */
const MOST_TOLD = 3;

/**
 * The parts that count of a job in a queue, and the input that goes with them.
 * @param given the folder of the parts, as this machine sees it
 * @throws JobFileError naming the shards that are not committed, with the reasons of those that were given up;
 * QueueError
 */
export async function queuedParts(
  source: WorkSource,
  { output, parts: folder }: { readonly output: string; readonly parts?: InputPaths },
): Promise<{ readonly parts: readonly string[]; readonly queuedInput: readonly string[] }> {
  if (folder !== undefined && typeof folder !== 'string')
    throw new UsageError(`parts: found ${found(folder)}, expected one folder, as the queue says which parts are in it`);
  const manifest = await source.manifest();
  const shards = await source.shards();
  const problems = problemsOf(shards);
  if (problems.length > 0) throw new JobFileError(output, `cannot be collected: ${problems.join('; ')}`);
  return {
    parts: shards.map(({ shard, attempt = '' }) =>
      partPath({ parts: folder ?? manifest.parts, manifest, shard }, attempt),
    ),
    queuedInput: manifest.input,
  };
}

function problemsOf(shards: readonly ShardState[]): readonly string[] {
  const failed = shards.filter(({ state }) => state === 'failed');
  const told = failed
    .slice(0, MOST_TOLD)
    .map(
      ({ shard, deliveries, reasons }) =>
        `shard ${shard} was given up after ${deliveries} deliveries (${reasons.at(-1) ?? 'no reason is known'})`,
    );
  if (failed.length > MOST_TOLD) told.push(`${failed.length - MOST_TOLD} more shards were given up`);
  const left = shards.filter(({ state }) => state === 'open' || state === 'leased').map(({ shard }) => String(shard));
  if (left.length > 0)
    told.push(`shards ${listMissing(left)} of ${shards.length} are not done: wait for the workers, or start some`);
  return told;
}
