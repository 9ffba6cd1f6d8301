import { checkCompression, compressionOf, type Compression } from './compression.js';
import { jsonl } from './jsonl.js';
import type { RowFormat } from './RowFormat.js';
import { chosenFormat, formatOfName, type FormatChoice } from './rowFormats.js';

/** What a file is, or is to be. */
export interface FileFormat {
  readonly format: RowFormat;
  readonly compression: Compression | undefined;
}

/**
 * What an input is. With `auto`: what its name says, else what a regular file begins with; else lines of JSON.
 * @param path undefined for what has no name
 * @throws UsageError where this Node cannot decompress it
 */
export async function inputFormat(path: string | undefined, choice: FormatChoice | undefined): Promise<FileFormat> {
  if (path === undefined) return { format: chosenFormat(choice) ?? jsonl, compression: undefined };
  const { name, compression } = compressionOf(path);
  checkCompression(path, compression);
  const format = chosenFormat(choice) ?? formatOfName(name) ?? jsonl;
  return { format, compression };
}

/** What an output is to be. With `auto`: what its name says; else what is given. @throws UsageError where this Node cannot compress it */
export function outputFormat(path: string | undefined, choice: FormatChoice | undefined, otherwise: RowFormat = jsonl): FileFormat {
  const { name, compression } = compressionOf(path ?? '');
  checkCompression(path ?? '', compression);
  return { format: chosenFormat(choice) ?? formatOfName(name) ?? otherwise, compression };
}
