import type { IncomingMessage } from 'node:http';
import type { LedgerAccount } from '../../collections/ByteLedger.js';
import { jsonLine } from '../../jobs/formats/jsonLine.js';
import { formatBytes } from '../../units.js';
import { ApiError } from './ApiError.js';

/** JSON as it was read, with the digits that JavaScript loses, and as it was sent. */
export interface JsonBody {
  readonly read: unknown;
  readonly written: unknown;
  readonly json: string;
}

/** The media type of a request's body, in small letters; undefined where it says none. */
export function mediaType({ headers }: IncomingMessage): string | undefined {
  return headers['content-type']?.split(';')[0]?.trim().toLowerCase();
}

/** Tells whether a request says that it has a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const { 'content-length': length, 'transfer-encoding': coded } = headers;
  return coded !== undefined || (length !== undefined && Number(length) !== 0);
}

/** @throws ApiError for a body that is of another kind, packed, or longer than it may be */
export function checkBody(request: IncomingMessage, type: string, mostBytes: number): void {
  const { 'content-encoding': packed = 'identity', 'content-length': length } = request.headers;
  const found = mediaType(request);
  if (found !== type)
    throw new ApiError(415, `Content-Type: found ${found === undefined ? 'none' : 'another'}, expected ${type}`, {
      code: 'unsupported_media_type',
    });
  if (packed !== 'identity')
    throw new ApiError(415, 'Content-Encoding: expected none', { code: 'unsupported_media_type' });
  if (length !== undefined && Number(length) > mostBytes) throw tooLarge(mostBytes);
}

/**
 * The bytes of a body, which count in an account for as long as that is open.
 * @throws ApiError for one that is longer than it may be, or beyond what all bodies may take, or that does not come in
 * time or not to its end
 */
export async function bytesOfBody(
  request: IncomingMessage,
  {
    mostBytes,
    seconds,
    account,
  }: { readonly mostBytes: number; readonly seconds: number; readonly account: LedgerAccount },
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  // Not by iterating, which could not be ended without the connection on which the refusal has to go out.
  await new Promise<void>((resolve, reject) => {
    const end = (problem?: ApiError): void => {
      clearTimeout(timer);
      request.off('data', take).off('end', whole).off('close', gone).pause();
      if (problem) reject(problem);
      else resolve();
    };
    const take = (part: Buffer): void => {
      length += part.length;
      if (length > mostBytes) end(tooLarge(mostBytes));
      else if (!account.fits(part.length))
        end(overloaded('the bodies of other requests take all memory that there is for them'));
      else {
        account.take(part.length);
        parts.push(part);
      }
    };
    const whole = (): void => {
      end();
    };
    const gone = (): void => {
      end(new ApiError(400, 'the body ended before its end'));
    };
    const timer = setTimeout(() => {
      end(new ApiError(408, `the body did not come within ${seconds} s`, { code: 'timeout' }));
    }, seconds * 1000);
    request.on('data', take).on('end', whole).on('close', gone);
  });
  return Buffer.concat(parts, length);
}

/** Editors and shells of Windows begin files with it, those that are sent as a body among them. */
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/**
 * A body's JSON, bounded before anything is made of it, and read in slices where it is long.
 * @throws ApiError for what is none, or takes too much
 */
export async function jsonOfBody(body: Buffer, mostBytes: number): Promise<JsonBody> {
  const from = BYTE_ORDER_MARK.equals(body.subarray(0, BYTE_ORDER_MARK.length)) ? BYTE_ORDER_MARK.length : 0;
  const bytes = body.subarray(from);
  const line = await jsonLine({ number: 1, bytes, end: bytes.length, terminated: true }, mostBytes);
  if (!line.bad) return line;
  const { code, message } = line.bad.error;
  throw new ApiError(code === 'limit' ? 413 : 400, message.replace(/^line 1: /, 'body: '), { code });
}

export function overloaded(why: string): ApiError {
  return new ApiError(429, `${why}; try again later`, { code: 'overloaded', headers: { 'retry-after': '1' } });
}

function tooLarge(mostBytes: number): ApiError {
  return new ApiError(413, `the body has more than ${formatBytes(mostBytes)}, expected at most that`, {
    code: 'body_too_large',
  });
}
