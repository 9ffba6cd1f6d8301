import { cpSync, openSync, closeSync, readdirSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readModel } from '../../../src/model/readModel.js';
import type { TensorBinding } from '../../../src/model/TensorBinding.js';

/** What of a weight is overwritten: an element of a row. */
export interface Overwrite {
  readonly role: TensorBinding['role'];
  /** Default -1: a weight that is not a layer's. */
  readonly layer?: number;
  readonly row: number;
  readonly column?: number;
  readonly value: number;
}

/**
 * A copy of a model with other numbers in some of its 32-bit or bfloat16 weights, in its own file, where nothing else
 * is changed. @returns its path
 */
export async function overwrittenModel(
  model: string,
  folder: string,
  overwrites: readonly Overwrite[],
): Promise<string> {
  const path = join(folder, basename(model));
  cpSync(model, path, { recursive: true });
  const { bindings, files } = await readModel(path);
  for (const { role, layer = -1, row, column = 0, value } of overwrites) {
    const binding = bindings.find((each) => each.role === role && each.layer === layer);
    const [segment] = binding?.segments ?? [];
    const file = files[segment?.file ?? -1];
    if (!binding || !segment || file === undefined || row >= segment.rows)
      throw new RangeError(
        `no ${role} of layer ${layer} with row ${row} in one piece in ${readdirSync(folder).join(', ')}`,
      );
    if (binding.type !== 'F32' && binding.type !== 'BF16')
      throw new RangeError(`${role} is ${binding.type}, expected F32 or BF16`);
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    const element = binding.type === 'F32' ? bytes : bytes.subarray(2);
    const descriptor = openSync(file, 'r+');
    writeSync(
      descriptor,
      element,
      0,
      element.length,
      segment.offset + (row * binding.columns + column) * element.length,
    );
    closeSync(descriptor);
  }
  return path;
}
