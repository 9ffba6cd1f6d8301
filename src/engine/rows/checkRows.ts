import { isObservable } from 'rxjs';
import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';

/** Checks that rows can be had from it, before anything is read. (Text could be iterated, but its characters are no rows.) @throws UsageError */
export function checkRows(rows: unknown): void {
  const many = typeof rows === 'object' && rows !== null && (Symbol.asyncIterator in rows || Symbol.iterator in rows || isObservable(rows));
  if (!many) throw new UsageError(`rows: found ${found(rows)}, expected an array or another iterable, an async iterable, a ReadableStream or an Observable of rows; one row alone goes as [row]`);
}
