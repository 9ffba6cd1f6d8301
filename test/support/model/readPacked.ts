import type { FilePlace, PackedIntegers, TensorBinding } from '../../../src/model/TensorBinding.js';
import { WEIGHT_TYPES } from '../../../src/model/weightTypes.js';
import { dequantise } from './dequantise.js';

const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7];

/** A matrix of packed integers element by element, straight from where each of its parts lies. */
export function readPacked(
  { columns, segments }: TensorBinding,
  packed: PackedIntegers,
  files: readonly Buffer[],
): Float64Array {
  const { bits, order, tensorRows, group, groupsFirst, scaleType } = packed;
  const per = 32 / bits;
  const groups = Math.ceil(columns / group);
  const word = ({ file, offset }: FilePlace, index: number): number =>
    files[file]?.readUInt32LE(offset + 4 * index) ?? NaN;
  const field = (from: number, place: number): number => Math.floor(from / 2 ** (bits * place)) % 2 ** bits;
  const inWord = (row: number): number => (order === 'outputs' ? AWQ_ORDER.indexOf(row % per) : row % per);
  const integer = (row: number, column: number): number => {
    const { values } = packed;
    if (packed.signed) return (files[values.file]?.readInt8(values.offset + row * columns + column) ?? NaN) + 128;
    if (order === 'rows') return field(word(values, (row * columns + column - (column % per)) / per), column % per);
    if (order === 'inputs') return field(word(values, Math.floor(column / per) * tensorRows + row), column % per);
    return field(word(values, (column * tensorRows) / per + Math.floor(row / per)), inWord(row));
  };
  const zero = (row: number, of: number): number => {
    const { zeros } = packed;
    if (zeros === undefined) return packed.zero;
    if (packed.zeroBytes) return packed.zero + (files[zeros.file]?.readInt8(zeros.offset + row * groups + of) ?? NaN);
    const line = Math.floor(row / per);
    const at = groupsFirst ? (of * tensorRows) / per + line : line * groups + of;
    return packed.zero + field(word(zeros, at), inWord(row));
  };
  const scale = (row: number, of: number): number => {
    const { bytes } = WEIGHT_TYPES[scaleType];
    const from = packed.scales.offset + bytes * (groupsFirst ? of * tensorRows + row : row * groups + of);
    const stored = dequantise(scaleType, files[packed.scales.file]?.subarray(from, from + bytes) ?? Buffer.alloc(0))[0];
    return (stored ?? NaN) / (packed.scaleOf ?? 1);
  };
  const groupOf = (column: number): number =>
    packed.groupIndex === undefined ? Math.floor(column / group) : word(packed.groupIndex, column);
  const rows = segments.flatMap(({ offset, rows: count }) => Array.from({ length: count }, (_, i) => offset + i));
  return Float64Array.from(
    rows.flatMap((row) =>
      Array.from({ length: columns }, (_, column) => {
        const of = groupOf(column);
        return scale(row, of) * (integer(row, column) - zero(row, of));
      }),
    ),
  );
}
