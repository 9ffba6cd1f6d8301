import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { JobFileError } from '../../errors/JobFileError.js';
import { fileFailure } from '../../files/fileErrors.js';
import { recordPath } from '../output/sidecarFiles.js';
import { type Shard, shardOfName, shardPath } from './Shard.js';

/** How the record of a part is called, after the part's name. */
const RECORD = recordPath('');

/**
 * The parts that stand beside an output, by their names and those of their records: one that is not whole may have
 * nothing else.
 * @throws JobFileError where there are none, or of several numbers of shards
 */
export async function findParts(output: string): Promise<readonly string[]> {
  const folder = dirname(output);
  const names = await readdir(folder).catch((error: unknown) => {
    throw fileFailure(folder, 'read', error);
  });
  const parts = new Map<string, Pick<Shard, 'index' | 'count'>>();
  for (const name of names) {
    const part = name.endsWith(RECORD) ? name.slice(0, -RECORD.length) : name;
    const shard = shardOfName(part, basename(output));
    if (shard !== undefined) parts.set(join(folder, part), shard);
  }
  const counts = [...new Set([...parts.values()].map(({ count }) => count))].sort((a, b) => a - b);
  const [count, ...others] = counts;
  if (count === undefined)
    throw new JobFileError(
      output,
      `found no part of it, expected files such as ${basename(shardPath(output, { index: 0, count: 2 }))} beside it; \`parts\` says where they are`,
    );
  if (others.length > 0)
    throw new JobFileError(
      output,
      `found parts of ${counts.join(' and of ')} shards, expected those of one job; \`parts\` says which, e.g. ${basename(shardPath(output, { index: 0, count })).replace(/-\d+-of-/, '-*-of-')}`,
    );
  return [...parts.keys()].sort((a, b) => (parts.get(a)?.index ?? 0) - (parts.get(b)?.index ?? 0));
}
