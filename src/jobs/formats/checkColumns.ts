import { checkObject } from '../../arguments/checkMembers.js';
import { checkText } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { membersOf } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';
import { PAIRS, TEXT_LISTS } from '../../rows/rowFields.js';
import type { DeclaredProperty } from '../../schema/declaredProperties.js';
import { resultColumnNames } from './resultColumns.js';
import { ROW_FIELDS } from './parseRow.js';

/** @throws UsageError unless it says of fields of a row which columns hold them */
export function checkColumns(name: string, value: unknown): void {
  checkNames(name, value, [...ROW_FIELDS, ...TEXT_LISTS, ...PAIRS]);
}

/**
 * @throws UsageError unless it gives names to something; which names there are is known once the schema of answers is
 */
export function checkNamesOfColumns(name: string, value: unknown): void {
  checkNames(name, value);
}

/**
 * @param properties those that have a column each, instead of one for the whole answer
 * @throws UsageError unless it gives result columns other names
 */
export function checkResultColumns(name: string, value: unknown, properties?: readonly DeclaredProperty[]): void {
  const known = resultColumnNames(properties);
  if (properties && membersOf(value)['value'] !== undefined && !known.includes('value')) {
    throw new UsageError(
      `${name}: found value, the answer as a whole, expected any of ${known.join(', ')}: with this schema each of its properties is a column`,
    );
  }
  checkNames(name, value, known);
}

function checkNames(name: string, value: unknown, known?: readonly string[]): asserts value is object {
  checkObject(name, value, known);
  for (const [member, column] of Object.entries(value)) {
    checkText(`${name}.${member}`, column, 'the name of a column');
    if (column === '') throw new UsageError(`${name}.${member}: found ${found(column)}, expected the name of a column`);
  }
}

/** @throws UsageError unless it can stand between the values of a table */
export function checkDelimiter(name: string, value: unknown): void {
  checkText(name, value, 'one character');
  if (/^[^"\r\n]$/u.test(value)) return;
  throw new UsageError(`${name}: found ${found(value)}, expected one character that is no quote and no line break`);
}
