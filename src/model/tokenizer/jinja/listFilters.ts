import { equal } from './compare.js';
import { PythonError } from './errors.js';
import { iterate, listOf } from './iterate.js';
import { make, makeList, spend } from './meter.js';
import { index } from './numbers.js';
import type { Value } from './values.js';

type Given = readonly (Value | undefined)[];

export function* sliced(value: Value, [slices = 1, fill = null]: Given): Generator<Value, undefined> {
  const items = listOf(value);
  const count = index(slices);
  if (count === 0) throw new PythonError('ZeroDivisionError', 'integer division or modulo by zero');
  const each = Math.floor(items.length / count);
  const longer = count < 0 ? 0 : items.length % count;
  let at = 0;
  for (let number = 0; number < count; number++) {
    spend(1);
    const size = each + (number < longer ? 1 : 0);
    const part = items.slice(at, at + size);
    if (fill !== null && number >= longer) part.push(fill);
    make(part.length + 1);
    yield part;
    at += size;
  }
  return undefined;
}

export function* batched(value: Value, [count = 1, fill = null]: Given): Generator<Value, undefined> {
  let batch: Value[] = [];
  for (const item of iterate(value)) {
    if (equal(batch.length, count)) {
      yield batch;
      batch = [];
    }
    make(1);
    batch.push(item);
  }
  if (batch.length > 0) {
    if (fill !== null) {
      const missing = Math.max(0, index(count) - batch.length);
      makeList(missing);
      for (let i = 0; i < missing; i++) batch.push(fill);
    }
    yield batch;
  }
  return undefined;
}
