import { WEIGHT_TYPES } from '../../../src/model/weightTypes.js';
import { type TensorBinding } from '../../../src/model/TensorBinding.js';
import { dequantise } from './dequantise.js';
import { float8 } from './float8.js';
import { readCoded } from './readCoded.js';
import { readPacked } from './readPacked.js';

type Vector = Float64Array;

/** Element by element, rounded as the engine does it. */
function readFloat8(
  { columns, segments, inputRow }: TensorBinding,
  { file, offset, type, blockRows, blockColumns, tensorOffset }: NonNullable<TensorBinding['float8']>,
  files: readonly Buffer[],
): Vector {
  const rowElements = inputRow ?? columns;
  const across = Math.ceil(rowElements / blockColumns);
  const { bytes } = WEIGHT_TYPES[type];
  const values: number[] = [];
  for (const { file: of, offset: start, rows } of segments) {
    for (let i = 0; i < rows * columns; i++) {
      // Of a matrix that lies with a row for each input the next input is a row further on.
      const at = start + (inputRow === undefined ? i : (i % columns) * inputRow + Math.floor(i / columns));
      const [row, column] = [Math.floor((at - tensorOffset) / rowElements), (at - tensorOffset) % rowElements];
      const block = Math.floor(row / blockRows) * across + Math.floor(column / blockColumns);
      const from = offset + block * bytes;
      const scale = dequantise(type, files[file]?.subarray(from, from + bytes) ?? Buffer.alloc(0))[0];
      values.push(toHalf(Math.fround(float8(files[of]?.[at] ?? NaN) * (scale ?? NaN))));
    }
  }
  return Float64Array.from(values);
}

/** The nearest half, of two the even one, of what is no greater than halves can be. */
function toHalf(value: number): number {
  const exponent = Math.max(-14, Math.floor(Math.log2(Math.abs(value))));
  const step = 2 ** (exponent - 10);
  const [below, rest] = [Math.floor(value / step), (value / step) % 1];
  const up = Math.abs(rest) === 0.5 ? below % 2 !== 0 : value / step - below > 0.5;
  return (below + (up ? 1 : 0)) * step;
}

/** A weight as its file has it, in the order of its role. */
export function readWeight(binding: TensorBinding, files: readonly Buffer[]): Vector {
  if (binding.packed) return readPacked(binding, binding.packed, files);
  if (binding.coded) return readCoded(binding, binding.coded, files);
  if (binding.float8) return readFloat8(binding, binding.float8, files);
  const parts = binding.segments.flatMap(({ rows, step = 1, ...segment }) =>
    Array.from({ length: rows }, (_, row) => readRow(binding, segment, row * step, files)),
  );
  return dequantise(binding.type, Buffer.concat(parts)).map((x) => x + (binding.add ?? 0));
}

/** The bytes of one of a segment's rows, as their type has them. */
function readRow(
  { type, columns, blockScales, inputRow, rowColumns = columns }: TensorBinding,
  { file, offset }: { readonly file: number; readonly offset: number },
  row: number,
  files: readonly Buffer[],
): Buffer {
  const slice = (of: number, from: number, bytes: number): Buffer =>
    files[of]?.subarray(from, from + bytes) ?? Buffer.alloc(0);
  const block = WEIGHT_TYPES[type];
  if (inputRow !== undefined)
    return Buffer.concat(
      Array.from({ length: columns }, (_, input) =>
        slice(file, offset + (input * inputRow + row) * block.bytes, block.bytes),
      ),
    );
  if (blockScales === undefined) {
    const rowBytes = (columns / block.elements) * block.bytes;
    return slice(file, offset + row * (rowColumns / block.elements) * block.bytes, rowBytes);
  }
  return Buffer.concat(
    Array.from({ length: columns / 32 }, (_, i) => {
      const from = offset + (row * columns) / 2 + i * 16;
      const nibbles = [...slice(file, from, 16)].flatMap((byte) => [byte & 15, byte >> 4]);
      const halves = Array.from({ length: 16 }, (__, j) => (nibbles[j] ?? 0) | ((nibbles[j + 16] ?? 0) << 4));
      const scale = slice(blockScales.file, blockScales.offset + (from - blockScales.tensorOffset) / 16, 1);
      return Buffer.concat([scale, Buffer.from(halves)]);
    }),
  );
}
