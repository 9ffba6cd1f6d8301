import type { DecoderSpec } from '../model/DecoderSpec.js';
import type { TensorBinding } from '../model/TensorBinding.js';

/** A conversion by `repack`. */
export interface RepackOptions {
  readonly decoder: DecoderSpec;
  readonly bindings: readonly TensorBinding[];
  /** Paths that the bindings' segments refer to by index. */
  readonly files: readonly string[];
  /**
   * Path of the store to make. Its folder must exist; what was there under the name is replaced, unless it is a whole
   * store of the same fingerprint.
   */
  readonly store: string;
  /**
   * Stands for what is in the model's files and what it is taken to mean: a store with another one is not used. At most
   * 4096 bytes.
   */
  readonly fingerprint: string;
  /**
   * The stamp of each of the files when the fingerprint was made (`FileStamp.text`): code `file` for one that has
   * another when it is opened, or when a block has been made of it. Default: they are whatever they are.
   */
  readonly stamps?: readonly string[];
  /** 1 to 1024. */
  readonly threads: number;
}

export interface StoreFacts {
  /** The bytes of each layer's block. As `residentLayerBytes` they make the layer wholly resident. */
  readonly layerBytes: readonly number[];
  /** The block's norms and biases: the least that is resident. */
  readonly vectorBytes: readonly number[];
  /** Embeddings, projections, final norm and head: always resident. */
  readonly globalBytes: number;
  readonly fileBytes: number;
}
