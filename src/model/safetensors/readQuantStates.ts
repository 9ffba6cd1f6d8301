import { ModelFileError } from '../../errors/ModelFileError.js';
import { Fields, LIMITS } from '../architectures/Fields.js';
import { ModelFile } from '../files/ModelFile.js';
import { printable } from '../files/printable.js';
import type { ByteTensor } from './readSafetensorsFile.js';

/** The form of one matrix of 4-bit floats as bitsandbytes writes it, in a tensor of bytes that are JSON. */
export interface QuantState {
  readonly shape: readonly [rows: number, columns: number];
  readonly group: number;
  readonly type: 'F32' | 'F16' | 'BF16';
  readonly nested?: { readonly group: number; readonly offset: number };
}

const SUFFIX = /\.quant_state\.bitsandbytes__(nf4|fp4)$/;
const MOST_BYTES = 4096;
const SIZES = { min: 1, max: LIMITS.vocabulary.max };
const GROUPS = { min: 1, max: 2 ** 20 };
const TYPES: ReadonlyMap<unknown, QuantState['type']> = new Map([
  ['float32', 'F32'],
  ['float16', 'F16'],
  ['bfloat16', 'BF16'],
]);

/** By the name of the matrix. @throws ModelFileError */
export async function readQuantStates(
  files: readonly string[],
  bytes: readonly ByteTensor[],
): Promise<ReadonlyMap<string, QuantState>> {
  const states = new Map<string, QuantState>();
  for (const [index, path] of files.entries()) {
    const here = bytes.filter(({ name, file }) => file === index && SUFFIX.test(name));
    if (here.length === 0) continue;
    await ModelFile.use(path, async (file) => {
      for (const tensor of here) {
        const field = `tensor ${printable(tensor.name)}`;
        if (tensor.bytes > MOST_BYTES)
          throw new ModelFileError(path, field, `${tensor.bytes} bytes`, `at most ${MOST_BYTES} of JSON`);
        const text = Buffer.alloc(tensor.bytes);
        await file.fill(text, tensor.offset);
        states.set(tensor.name.replace(SUFFIX, ''), stateOf(Fields.ofObject(path, parsed(path, field, text), field)));
      }
    });
  }
  return states;
}

function parsed(path: string, field: string, text: Buffer): unknown {
  try {
    return JSON.parse(text.toString('utf8'));
  } catch {
    throw new ModelFileError(path, field, 'bytes that are no JSON', 'what bitsandbytes says of a matrix');
  }
}

function stateOf(fields: Fields): QuantState {
  const [rows = 0, columns = 0] = fields.numbers('shape', 2, SIZES);
  if (!Number.isInteger(rows) || !Number.isInteger(columns)) fields.refuse('shape', 'two integers');
  return {
    shape: [rows, columns],
    group: fields.integer('blocksize', GROUPS),
    type: TYPES.get(fields.raw('dtype')) ?? fields.refuse('dtype', 'float32, float16 or bfloat16'),
    ...(fields.has('nested_blocksize') && {
      nested: {
        group: fields.integer('nested_blocksize', GROUPS),
        offset: fields.number('nested_offset', { min: -1e30, max: 1e30 }),
      },
    }),
  };
}
