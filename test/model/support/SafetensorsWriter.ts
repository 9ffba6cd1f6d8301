import { dtypeBits } from '../../../src/model/safetensors/dtypes.js';

export interface SafetensorsTensorInput {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** An entry of the header as it is written; any part may be made wrong. */
export type SafetensorsEntry = readonly [name: string, entry: unknown];

/** Entries of tensors that lie one after another, and the length of their data. */
export function layOut(tensors: readonly SafetensorsTensorInput[]): { entries: SafetensorsEntry[]; dataBytes: number } {
  let end = 0;
  const entries = tensors.map(({ name, dtype, shape }): SafetensorsEntry => {
    const begin = end;
    end += (shape.reduce((product, size) => product * size, 1) * (dtypeBits(dtype) ?? 8)) / 8;
    return [name, { dtype, shape, data_offsets: [begin, end] }];
  });
  return { entries, dataBytes: end };
}

/** Text of a header; unlike JSON.stringify of an object, it can have a name twice. */
export function headerText(entries: readonly SafetensorsEntry[]): string {
  return `{${entries.map(([name, entry]) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`).join(',')}}`;
}

/** A file of a header (padded to 8 bytes with blanks, as the format's own library does) and data. */
export function assemble(header: string | Buffer, dataBytes: number): Buffer {
  const text = Buffer.from(header);
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, ' ')]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, Buffer.alloc(dataBytes)]);
}

export function writeSafetensors(
  tensors: readonly SafetensorsTensorInput[],
  metadata?: Readonly<Record<string, string>>,
): Buffer {
  const { entries, dataBytes } = layOut(tensors);
  return assemble(headerText(metadata ? [['__metadata__', metadata], ...entries] : entries), dataBytes);
}
