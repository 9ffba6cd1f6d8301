import type { ModelDownload } from '../pull/ModelDownload.js';
import { WrongBytes } from '../pull/PartialFile.js';
import type { Patience } from '../pull/TimedFetch.js';
import { askHub, type HubAnswer } from './hubRequest.js';
import type { HubSettings } from './hubSettings.js';

/** A file of the hub, and how it is asked for. */
export interface AskedFile {
  readonly url: string;
  readonly bytes: number;
  readonly settings: HubSettings;
  readonly patience: Patience;
  readonly signal: AbortSignal;
}

/** `sized`: the answer says how long it is, and so is the file. */
export interface RestOfFile extends ModelDownload {
  readonly sized: boolean;
  /** Ends the transfer where nobody reads it. */
  cancel(): Promise<void>;
}

/**
 * Asks for a file from a byte on. Who cannot begin in the middle begins anew, as `offset` says.
 * @throws WrongBytes for an answer that does not fit; HubRefusal; whatever fetching throws
 */
export async function askRest(file: AskedFile, offset: number): Promise<RestOfFile> {
  const { url, settings, patience, signal } = file;
  const range = offset > 0 ? { range: `bytes=${offset}-` } : {};
  const answer = await askHub(url, settings, patience, signal, range);
  try {
    return restIn(answer, file, offset);
  } catch (error) {
    await answer.cancel();
    throw error;
  }
}

function restIn(answer: HubAnswer, { bytes }: AskedFile, offset: number): RestOfFile {
  const { status, headers } = answer;
  const cancel = (): Promise<void> => answer.cancel();
  if (status === 206) {
    const said = headers.get('content-range') ?? 'no range';
    const [, first, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(said) ?? [];
    if (Number(first) !== offset || (total !== '*' && Number(total) !== bytes))
      throw new WrongBytes(`it sent a part that does not fit: ${said.slice(0, 80)}`);
    return { offset, chunks: answer.read(), sized: true, cancel };
  }
  const length = Number(headers.get('content-length') ?? NaN);
  const sized = Number.isFinite(length);
  if (sized && length !== bytes) throw new WrongBytes(`its file has ${length} bytes, expected ${bytes}`);
  return { offset: 0, chunks: answer.read(), sized, cancel };
}
