import { isUtf8 } from 'node:buffer';
import { isObject } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { formatBytes } from '../../units.js';
import { foundInFile } from '../../arguments/found.js';
import type { JsonObject } from './Fields.js';
import { HEADER_LIMITS } from './limits.js';
import { ModelFile } from './ModelFile.js';

const [COMMA, COLON, BRACKET, BRACE] = [0x2c, 0x3a, 0x5b, 0x7b];

/**
 * Reads a JSON file whose outermost value is an object. Keys are its own, `__proto__` included: JSON.parse defines them
 * and assigns none, so nothing is inherited. Of a key that is there twice the last counts, as in Python, with which
 * models' files are written and read.
 * @throws ModelFileError for anything else, and for more than `maxBytes`
 */
export async function readJsonObject(path: string, maxBytes: number): Promise<JsonObject> {
  const value = await readJson(path, maxBytes);
  if (!isObject(value)) throw new ModelFileError(path, 'file', `JSON that is ${foundInFile(value)}`, 'a JSON object');
  return value;
}

/** The same of whatever value it holds. */
export async function readJson(path: string, maxBytes: number): Promise<unknown> {
  const text = await readText(path, maxBytes, checkJsonMemory);
  try {
    return parseAsPython(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ModelFileError(path, 'file', `no JSON (${why})`, 'a JSON object', { cause: error });
  }
}

/** Python writes numbers that JSON has no word for: infinities become ones too large to be told from them. */
function parseAsPython(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    if (!text.includes('Infinity')) throw error;
    return JSON.parse(
      text.replace(/"[^"\\]*(?:\\.[^"\\]*)*(?:"|$)|\bInfinity\b/gs, (each) => (each === 'Infinity' ? '1e999' : each)),
    );
  }
}

/** Reads a UTF-8 text file, a byte order mark left out. */
export async function readText(
  path: string,
  maxBytes: number,
  check?: (path: string, bytes: Buffer) => void,
): Promise<string> {
  const bytes = await ModelFile.use(path, async (file) => {
    if (file.bytes > maxBytes)
      throw new ModelFileError(path, 'file', formatBytes(file.bytes), `at most ${formatBytes(maxBytes)}`);
    const buffer = Buffer.allocUnsafe(file.bytes);
    await file.fill(buffer, 0);
    return buffer;
  });
  if (!isUtf8(bytes)) throw new ModelFileError(path, 'file', 'bytes that are no UTF-8', 'UTF-8 text');
  check?.(path, bytes);
  const hasMark = bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return bytes.toString('utf8', hasMark ? 3 : 0);
}

/**
 * JSON.parse can make twenty bytes of heap from one of text (`[{},{},…`), and running out of heap ends the process. So
 * values, keys and containers are counted first, by the characters that go with them. Those inside strings count too,
 * which is no matter: the largest known tokenizer reaches half of the limit.
 */
function checkJsonMemory(path: string, bytes: Buffer): void {
  let heap = 0;
  for (const byte of bytes) {
    if (byte === COMMA) heap += 20;
    else if (byte === COLON) heap += 80;
    else if (byte === BRACKET || byte === BRACE) heap += 64;
  }
  if (heap > HEADER_LIMITS.jsonMemoryBytes) {
    throw new ModelFileError(
      path,
      'file',
      `JSON that takes more than ${formatBytes(HEADER_LIMITS.jsonMemoryBytes)} of memory`,
      'fewer values',
    );
  }
}
