import { open, rm, type FileHandle } from 'node:fs/promises';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { fileFailure } from '../../files/fileErrors.js';
import { rewritePath } from './sidecarFiles.js';
import { modeOf, moveOver } from '../../files/atomicFile.js';
import { type Journal, journalHeader, journalLines } from './Journal.js';

/** Read and written at a time. */
const PIECE_BYTES = 2 ** 20;
const LF = Buffer.from('\n');

/**
 * Rewrites an output without its error rows and without a torn last line.
 * @returns the new output's size
 * @throws JobFileError; the old output is then intact
 */
export async function dropFailedRows(journal: Journal): Promise<number> {
  return rewrite(journal, 'without its error rows', async (target) => {
    let kept: Buffer[] = [];
    let bytes = 0;
    const flush = async (): Promise<void> => {
      await target.appendFile(Buffer.concat(kept, bytes));
      [kept, bytes] = [[], 0];
    };
    for await (const line of journalLines(journal)) {
      if (line.failed) continue;
      kept.push(line.bytes, LF);
      bytes += line.bytes.length + 1;
      if (bytes > PIECE_BYTES) await flush();
    }
    await flush();
  });
}

/**
 * Puts the rows of a finished output into the order of the input, where an interruption, or errors that were tried
 * again, left some out of their turn. Holds four numbers a row.
 * @throws JobFileError, and InterruptedError once the signal fires; the old output is then intact
 */
export async function orderJournal(journal: Journal, signal?: AbortSignal): Promise<void> {
  await rewrite(journal, 'in the order of the input', async (target) => {
    const [indexes, samples, ends]: [number[], number[], number[]] = [[], [], []];
    for await (const { index, sample, end } of journalLines(journal, { signal })) {
      indexes.push(index);
      samples.push(sample ?? -1);
      ends.push(end);
    }
    const inTurn = Uint32Array.from(indexes.keys()).sort(
      (a, b) => (indexes[a] ?? 0) - (indexes[b] ?? 0) || (samples[a] ?? 0) - (samples[b] ?? 0),
    );
    const source = await open(journal.path, 'r');
    const begin = headerBytes(journal);
    try {
      // Lines that follow one another in both are copied together.
      for (let at = 0; at < inTurn.length;) {
        if (signal?.aborted === true) throw new InterruptedError(signal.reason);
        const first = inTurn[at] ?? 0;
        let last = first;
        while (inTurn[++at] === last + 1) last++;
        await copy(source, first === 0 ? begin : (ends[first - 1] ?? 0), ends[last] ?? 0, target);
      }
    } finally {
      await source.close();
    }
  });
}

async function copy(source: FileHandle, from: number, to: number, target: FileHandle): Promise<void> {
  for (let position = from; position < to;) {
    const { buffer, bytesRead } = await source.read(Buffer.allocUnsafe(Math.min(PIECE_BYTES, to - position)), {
      position,
    });
    if (bytesRead === 0) throw new Error('the file has become shorter');
    await target.appendFile(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
}

function headerBytes({ run }: Journal): number {
  return run === undefined ? 0 : journalHeader(run).length;
}

/**
 * Writes an output anew through a temporary file beside it, so that a crash leaves the old one or the new one. @returns
 * the new one's size
 */
async function rewrite(
  { path, run }: Journal,
  how: string,
  fill: (target: FileHandle) => Promise<void>,
): Promise<number> {
  const temporary = rewritePath(path);
  try {
    const mode = await modeOf(path);
    const target = await open(temporary, 'w', mode);
    let bytes: number;
    try {
      if (mode !== undefined) await target.chmod(mode);
      if (run !== undefined) await target.appendFile(journalHeader(run));
      await fill(target);
      await target.sync();
      ({ size: bytes } = await target.stat());
    } finally {
      await target.close();
    }
    await moveOver(temporary, path);
    return bytes;
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error instanceof InterruptedError ? error : fileFailure(path, `rewritten ${how}`, error);
  }
}
