import fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };

/**
 * Any character of Unicode that can be written, as a unit of `fc.string`: fast-check's own, `binary`, begins with a map
 * of all of them, which takes half a second of every suite.
 */
export const anyCharacter = fc
  .nat(0x10ffff - SURROGATES.count)
  .map((at) => String.fromCodePoint(at < SURROGATES.first ? at : at + SURROGATES.count));
