import type { CodedFloats, FilePlace, TensorBinding } from '../../../src/model/TensorBinding.js';
import { float8 } from './float8.js';

const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6];

/** A matrix of 4-bit floats element by element, rounded as the engine does it. */
export function readCoded(
  { type, columns, segments }: TensorBinding,
  coded: CodedFloats,
  files: readonly Buffer[],
): Float64Array {
  const byte = ({ file, offset }: FilePlace, index: number): number => files[file]?.[offset + index] ?? NaN;
  const float = ({ file, offset }: FilePlace, index: number): number =>
    files[file]?.readFloatLE(offset + 4 * index) ?? NaN;
  const { nested, global } = coded;
  const scaleOf = (group: number): number => {
    if (coded.scaleType === 'F32') return float(coded.scales, group);
    const stored = byte(coded.scales, group);
    if (coded.scaleType === 'F8_E4M3') return float8(stored);
    if (nested === undefined) return NaN;
    const product = Math.fround(float(nested.map, stored) * float(nested.scales, Math.floor(group / nested.group)));
    return Math.fround(product + Math.fround(nested.offset));
  };
  const whole = (scale: number): number => {
    if (global === undefined) return scale;
    return Math.fround(coded.globalDivides === true ? scale / float(global, 0) : scale * float(global, 0));
  };
  return Float64Array.from(
    segments.flatMap(({ offset, rows }) =>
      Array.from({ length: rows * columns }, (_, i) => {
        const at = offset * columns + i;
        const place = byte(coded.values, Math.floor(at / 2));
        const code = (at % 2 === 0) === coded.highFirst ? place >> 4 : place & 15;
        const number = coded.codebook ? float(coded.codebook, code) : (E2M1[code] ?? NaN);
        return rounded(type, Math.fround(number * whole(scaleOf(Math.floor(at / coded.group)))));
      }),
    ),
  );
}

/** The nearest of its type, of two the even one, of what is no subnormal number of it. */
function rounded(type: TensorBinding['type'], value: number): number {
  if (type === 'F32' || value === 0) return value;
  const step = 2 ** (Math.floor(Math.log2(Math.abs(value))) - (type === 'F16' ? 10 : 7));
  const [below, rest] = [Math.floor(value / step), value / step - Math.floor(value / step)];
  const up = rest === 0.5 ? below % 2 !== 0 : rest > 0.5;
  return (below + (up ? 1 : 0)) * step;
}
