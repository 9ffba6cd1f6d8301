import { isObservable } from 'rxjs';
import { found } from '../../arguments/found.js';
import { isIterable } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';

/** Checks that rows can be had from it, before anything is read. @throws UsageError */
export function checkRows(rows: unknown): void {
  if (!isIterable(rows) && !isObservable(rows))
    throw new UsageError(
      `rows: found ${found(rows)}, expected an array or another iterable, an async iterable, a ReadableStream or an Observable of rows; one row alone goes as [row]`,
    );
}
