import { printable } from '../files/printable.js';

/** A metadata value in words, for error messages. */
export function describeMetadata(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `the text ${printable(value)}`;
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'undefined':
      return 'none';
    default:
      return 'an array';
  }
}
