import { basename } from 'node:path';
import { JobFileError } from '../../errors/JobFileError.js';
import { listMissing } from '../../model/files/printable.js';
import { readBefore } from '../record/fingerprint.js';
import { type CompletePart, differencesOf, identityOf } from '../record/jobRecord.js';
import type { Part } from './Part.js';
import { shardPath } from './Shard.js';

/** Parts of other jobs of which each is told. */
const MOST_TOLD = 3;

/** All parts of a job, by their shards. */
export type WholeParts = readonly [WholePart, ...WholePart[]];
export type WholePart = Part & { readonly complete: CompletePart };

/**
 * Looks whether parts are all those of one job, each whole and there once.
 * @throws JobFileError naming every shard that is missing, is not complete, stands twice, or is another job's
 */
export function checkParts(output: string, parts: readonly Part[]): WholeParts {
  const first = usual(parts);
  if (first === undefined) throw new JobFileError(output, 'found no parts, expected those of a job');
  const foreign: string[] = [];
  const problems: string[] = [];
  const byShard = new Map<number, Part>();
  for (const part of parts) {
    const other = byShard.get(part.shard.index);
    const differences = differencesBetween(first, part);
    if (differences.length > 0)
      foreign.push(`${part.path} is of another job than ${first.path}: it differs in ${differences.join(', ')}`);
    else if (other !== undefined)
      problems.push(`${other.path} and ${part.path} are both of shard ${part.shard.index}, expected one of them`);
    else byShard.set(part.shard.index, part);
  }
  problems.unshift(...foreign.slice(0, MOST_TOLD));
  if (foreign.length > MOST_TOLD) problems.push(`${foreign.length - MOST_TOLD} more parts are of other jobs`);
  const { count } = first.shard;
  const missing = Array.from({ length: count }, (_, index) => index).filter((index) => !byShard.has(index));
  if (missing.length > 0)
    problems.push(
      `shards ${listMissing(missing.map(String))} of ${count} are missing: expected ${listMissing(
        missing.map((index) => basename(shardPath(output, { index, count }))),
        2,
      )} with what stands beside it; run each, \`--shard K/${count}\``,
    );
  const unfinished = parts.filter(({ complete }) => complete === undefined);
  if (unfinished.length > 0)
    problems.push(
      `shards ${listMissing(unfinished.map(({ shard }) => String(shard.index)))} of ${count} are not complete (${listMissing(
        unfinished.map(({ path }) => path),
        2,
      )}): run each to its end, with \`resume\``,
    );
  if (problems.length > 0) throw new JobFileError(output, `cannot be collected: ${problems.join('; ')}`);
  const whole = [...byShard.values()].sort((a, b) => a.shard.index - b.shard.index).filter(isWhole);
  return whole as unknown as WholeParts;
}

/** A part of the job that most of them are of. */
function usual(parts: readonly Part[]): Part | undefined {
  const groups = new Map<string, Part[]>();
  for (const part of parts) {
    const job = JSON.stringify(identityOf(part.record));
    const group = groups.get(job);
    if (group === undefined) groups.set(job, [part]);
    else group.push(part);
  }
  const [most] = [...groups.values()].sort((a, b) => b.length - a.length);
  return most?.find(({ complete }) => complete !== undefined) ?? most?.[0];
}

function isWhole(part: Part): part is WholePart {
  return part.complete !== undefined;
}

/** Says in words what two parts that go together cannot differ in. */
function differencesBetween(first: Part, part: Part): readonly string[] {
  const own = differencesOf(comparable(first), comparable(part));
  const [a, b] = [first.complete, part.complete];
  if (a === undefined || b === undefined || own.length > 0) return own;
  const read = [first, part].map(({ record }) => readBefore(record.input)?.sha256);
  return [
    ...(a.rows === b.rows && read[0] === read[1] ? [] : [`the rows of the input (read ${a.rows}, and ${b.rows})`]),
    ...(JSON.stringify(a.written) === JSON.stringify(b.written)
      ? []
      : ['how results are written (`resultColumns`, …)']),
  ];
}

function comparable({ record }: Part): Parameters<typeof differencesOf>[0] {
  return { ...identityOf(record), model: record.model };
}
