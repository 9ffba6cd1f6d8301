import { AUXILIARY_VECTOR_ELEMENTS, AUXILIARY_VECTORS } from '../ModelSource.js';
import type { TensorInfo } from '../ModelSource.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { ModelFile } from '../files/ModelFile.js';

/**
 * Reads the few small tensors that belong to a model's description (factors on rotary frequencies), where it has them.
 * @param files paths that the tensors' `file` refers to
 * @returns their elements by name
 */
export async function readAuxiliaryVectors(
  tensors: readonly TensorInfo[],
  files: readonly string[],
): Promise<Map<string, Float32Array>> {
  const vectors = new Map<string, Float32Array>();
  for (const name of AUXILIARY_VECTORS) {
    const tensor = tensors.find((candidate) => candidate.name === name);
    const path = tensor && files[tensor.file];
    if (!tensor || path === undefined) continue;
    const elements = tensor.shape[0] ?? 0;
    if (tensor.type !== 'F32' || tensor.shape.length !== 1 || elements > AUXILIARY_VECTOR_ELEMENTS) {
      throw new ModelFileError(
        path,
        `tensor ${name}`,
        `type ${tensor.type}, shape [${tensor.shape.join(', ')}]`,
        `type F32 and one dimension of at most ${AUXILIARY_VECTOR_ELEMENTS}`,
      );
    }
    const vector = new Float32Array(elements);
    await ModelFile.use(path, (file) => file.fill(new Uint8Array(vector.buffer), tensor.offset));
    vectors.set(name, vector);
  }
  return vectors;
}
