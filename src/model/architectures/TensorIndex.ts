import { ModelFileError } from '../../errors/ModelFileError.js';
import type { TensorInfo } from '../ModelSource.js';

/** The tensors of a model by name. */
export class TensorIndex {
  private readonly byName = new Map<string, TensorInfo>();
  private readonly taken = new Set<string>();

  constructor(
    /** The file or folder, for messages. */
    readonly path: string,
    tensors: readonly TensorInfo[],
    /** Tensors of one element that describe the model, by name (`ModelHeader.numbers`). */
    readonly numbers: ReadonlyMap<string, number> = new Map(),
  ) {
    for (const tensor of tensors) {
      if (this.byName.has(tensor.name))
        throw new ModelFileError(path, `tensor ${tensor.name}`, 'two tensors of that name', 'one');
      this.byName.set(tensor.name, tensor);
    }
  }

  has(name: string): boolean {
    return this.byName.has(name);
  }

  names(): string[] {
    return [...this.byName.keys()];
  }

  /** Tells whether a tensor of any layer is called so after its layer's prefix. */
  hasInLayers(name: string): boolean {
    for (const each of this.byName.keys()) if (each.endsWith(`.${name}`)) return true;
    return false;
  }

  find(name: string): TensorInfo | undefined {
    return this.byName.get(name);
  }

  /** The tensor, now marked as used. @throws ModelFileError if there is none */
  take(name: string): TensorInfo {
    const tensor = this.byName.get(name);
    if (tensor === undefined)
      throw new ModelFileError(this.path, `tensor ${name}`, 'no such tensor', 'a tensor of that name');
    this.taken.add(name);
    return tensor;
  }

  /** Tensors that nobody took. */
  unused(): string[] {
    return [...this.byName.keys()].filter((name) => !this.taken.has(name));
  }
}
