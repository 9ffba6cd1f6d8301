import { found } from './arguments/found.js';
import { UsageError } from './errors/UsageError.js';

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
  // As coreutils, systemd and Docker read them.
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
};

/** A size in bytes: a number of bytes, or text such as `512MiB`, `2GiB`, `16GB`, `2G` (which is 2GiB). */
export type Size = number | string;

/** Reads a size. @throws UsageError for anything that is not a whole number of bytes of at least 1. */
export function parseBytes(size: Size, what = 'size'): number {
  return sizeOr(size, (expected) => {
    throw new UsageError(`${what}: found ${found(size)}, expected ${expected}`);
  });
}

/** Reads a size, or throws what is made of the words for what was expected instead. */
export function sizeOr(size: Size, refuse: (expected: string) => never): number {
  const match = typeof size === 'object' ? null : /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(String(size));
  const unit = UNITS[match?.[2]?.toLowerCase() ?? '?'];
  const bytes = unit === undefined ? NaN : Math.floor(Number(match?.[1]) * unit);
  if (Number.isSafeInteger(bytes) && bytes >= 1) return bytes;
  // Also one that is not written as a size is.
  const beyond = typeof size !== 'object' && (Number(size) > Number.MAX_SAFE_INTEGER || Number(size) < 0);
  return refuse(
    Number.isNaN(bytes) && !beyond
      ? 'a size such as 512MiB, 2GiB, 16GB or plain bytes'
      : `a size from 1 byte to ${Number.MAX_SAFE_INTEGER}, such as 512MiB, 2GiB, 16GB or plain bytes`,
  );
}

/** The same where 0 is a size, too: there may be none of it. @throws UsageError */
export function parseBytesOrNone(size: Size, what = 'size'): number {
  return typeof size !== 'object' && /^\s*0+\s*$/.test(String(size)) ? 0 : parseBytes(size, what);
}

/** Writes a size for people: `1.5 GiB`. Never rounds down to 0 what is not. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024) return `${unit === 'bytes' ? value : Number(value.toPrecision(value < 100 ? 3 : 4))} ${unit}`;
    value /= 1024;
  }
  return `${Number(value.toPrecision(4))} TiB`;
}
