import type { Writable } from 'node:stream';
import { StreamWriter } from '../../files/StreamWriter.js';
import type { AnyResult } from '../../Results.js';
import { rowsOfResult } from '../../rows/rowsOfResult.js';
import { resultLine } from '../formats/formatResult.js';

/**
 * Writes results to a stream as lines of JSON, at the pace of its reader, and leaves the stream open. For an output
 * that outlives a killed process use `runJob`.
 * @returns how many rows were written, and how many of them carry an error
 * @throws JobFileError when the stream fails; whatever the source throws
 */
export async function writeRows(
  results: AsyncIterable<AnyResult>,
  output: Writable,
): Promise<{ done: number; failed: number }> {
  const sink = new StreamWriter(output, 'output');
  let done = 0;
  let failed = 0;
  for await (const result of results) {
    for (const row of rowsOfResult(result)) {
      const formatted = await resultLine(row);
      await sink.write(formatted.line);
      done += 1;
      if (formatted.failed) failed += 1;
    }
  }
  await sink.close();
  return { done, failed };
}
