import type { ModelHeader, TensorInfo } from '../../src/model/ModelSource.js';
import { WEIGHT_TYPES, type WeightType } from '../../src/model/weightTypes.js';
import { type TensorBinding } from '../../src/model/TensorBinding.js';

export type Shapes = Readonly<Record<string, readonly number[]>>;

/** Tensors of the given shapes one after another in one file, as a reader would list them. */
export function tensorsOf(shapes: Shapes, type: WeightType = 'F32'): TensorInfo[] {
  let offset = 0;
  return Object.entries(shapes).map(([name, shape]) => {
    const { elements, bytes: blockBytes } = WEIGHT_TYPES[type];
    const bytes = (shape.reduce((product, size) => product * size, 1) / elements) * blockBytes;
    const tensor = { name, type, shape, file: 0, offset, bytes };
    offset += bytes;
    return tensor;
  });
}

export function safetensorsHeader(config: unknown, shapes: Shapes = {}): ModelHeader {
  return { format: 'safetensors', path: 'model', config, tensors: tensorsOf(shapes) };
}

export function ggufHeader(
  architecture: string,
  fields: Readonly<Record<string, unknown>>,
  shapes: Shapes = {},
  vectors: Readonly<Record<string, Float32Array>> = {},
): ModelHeader {
  const entries = Object.entries(fields).map(([key, value]): [string, unknown] => [`${architecture}.${key}`, value]);
  const metadata = new Map<string, unknown>([['general.architecture', architecture], ...entries]);
  return {
    format: 'gguf',
    path: 'model.gguf',
    metadata,
    tensors: tensorsOf(shapes),
    vectors: new Map(Object.entries(vectors)),
  };
}

/** A binding as `role@layer`, with the rows of its tensor that it takes, as [first, rows] pairs. */
export function describeBindings(
  bindings: readonly TensorBinding[],
  tensors: readonly TensorInfo[],
): Record<string, string> {
  return Object.fromEntries(
    bindings.map((binding) => {
      const { elements, bytes } = WEIGHT_TYPES[binding.type];
      const rowBytes = (binding.columns / elements) * bytes;
      const offset = binding.segments[0]?.offset ?? NaN;
      const tensor = tensors.find(
        (candidate) => offset >= candidate.offset && offset < candidate.offset + candidate.bytes,
      );
      const ranges = binding.segments.map(
        (segment) => `${(segment.offset - (tensor?.offset ?? 0)) / rowBytes}+${segment.rows}`,
      );
      return [`${binding.role}@${binding.layer}`, `${tensor?.name} ${ranges.join(' ')}`];
    }),
  );
}
