import { valueError } from './errors.js';
import { strip } from './strMethods.js';
import { checkedInt } from './values.js';

/** A text with digits of all scripts as those of ours. */
function withPlainDigits(text: string): string {
  return text.replace(/\p{Nd}/gu, (digit) => {
    // The digits of a script follow each other, from zero.
    let zero = digit.codePointAt(0) ?? 0;
    const code = zero;
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--;
    return String((code - zero) % 10);
  });
}

/** `int(text, base)`; undefined for what is no number. @throws PythonError for a base that there is not */
export function parseIntText(text: string, base: number): number | bigint | undefined {
  if (base !== 0 && (base < 2 || base > 36)) throw valueError('int() base must be >= 2 and <= 36, or 0');
  const [, sign = '', prefix = '', rest = ''] =
    /^([-+]?)(0[bBoOxX]_?)?(\w+)$/.exec(withPlainDigits(strip(text, undefined, true, true))) ?? [];
  let radix = base;
  let digits = prefix + rest;
  const ofPrefix = { b: 2, o: 8, x: 16 }[prefix.charAt(1).toLowerCase()];
  if (ofPrefix !== undefined && (base === 0 || base === ofPrefix)) {
    radix = ofPrefix;
    digits = rest;
  } else if (base === 0) {
    radix = 10;
    if (/^0[0_]*[1-9]/.test(digits)) return undefined;
  }
  if (digits === '' || /^_|__|_$/.test(digits)) return undefined;
  digits = digits.replaceAll('_', '').toLowerCase();
  const allowed = '0123456789abcdefghijklmnopqrstuvwxyz'.slice(0, radix);
  for (const digit of digits) if (!allowed.includes(digit)) return undefined;
  if (digits.length > 4300) return undefined;
  let value = 0n;
  if (radix === 10) value = BigInt(digits);
  else for (const digit of digits) value = value * BigInt(radix) + BigInt(allowed.indexOf(digit));
  return checkedInt(sign === '-' ? -value : value);
}

/** `float(text)`; undefined for what is no number. */
export function parseFloatText(text: string): number | undefined {
  const plain = withPlainDigits(strip(text, undefined, true, true));
  const [, sign = '', special] = /^([-+]?)(inf|infinity|nan)$/i.exec(plain) ?? [];
  if (special !== undefined) {
    if (special.toLowerCase() === 'nan') return Number.NaN;
    return sign === '-' ? -Infinity : Infinity;
  }
  if (!/^[-+]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][-+]?\d+(?:_\d+)*)?$/.test(plain))
    return undefined;
  return Number(plain.replaceAll('_', ''));
}
