import type { DecoderSpec } from '../DecoderSpec.js';
import type { SequenceClassifier } from '../ModelSource.js';
import type { GlobalRole, LayerRole } from '../TensorBinding.js';
import type { Fields } from './Fields.js';
import type { TensorIndex } from './TensorIndex.js';

/**
 * A model family: how its configuration becomes a spec, and which tensors hold its weights, for each format that it
 * comes in.
 */
export interface Family {
  /** `model_type` values of config.json. */
  readonly modelTypes: readonly string[];
  /** @param tensors of the model; undefined where there are none, and its sizes alone are asked for */
  readonly fromConfig: (config: Fields, tensors?: TensorIndex) => Description;
  /**
   * `general.architecture` of GGUF, and the description from that metadata; absent where llama.cpp has no such
   * architecture.
   */
  readonly gguf?: { readonly architecture: string; readonly describe: (model: GgufModel) => Description };
}

/** What a GGUF file says of its model, its keys without the architecture's prefix. */
export interface GgufModel {
  readonly fields: Fields;
  readonly tensors: TensorIndex;
  /** Contents of the file's AUXILIARY_VECTORS. */
  readonly vectors: ReadonlyMap<string, Float32Array>;
}

export interface Description {
  readonly decoder: DecoderSpec;
  readonly weights: readonly WeightSource[];
  /**
   * Spellings of `{base}` in the tensors' names; a checkpoint uses the first one under which its first weight is found.
   */
  readonly bases?: readonly string[];
  /** Of each layer its number in the tensors' names, where some of the file's layers are left out. Default: its own. */
  readonly layerNumbers?: readonly number[];
  /**
   * Of an encoder: weights and activations of its products have 8 bits each, where nobody says otherwise and its file
   * has more. True where that was measured to give embeddings of a cosine of 0.999 to float32's. Default false.
   */
  readonly eightBits?: boolean;
  /** What the outputs of its pooled layers are, where these classify. */
  readonly classifier?: SequenceClassifier;
}

/** Which tensor holds the weight of one role. */
export interface WeightSource {
  readonly role: GlobalRole | LayerRole;
  /**
   * Its name; `{layer}` stands for the layer's number, and a name without it is not a layer's. `{base}`: see
   * `Description.bases`.
   */
  readonly tensor: string;
  /** The weight is only some rows of a fused tensor. */
  readonly part?: FusedPart;
  /** The weight is one slice of a tensor [count, outputs, inputs]. */
  readonly slice?: { readonly count: number; readonly index: number };
  /**
   * Of a tensor of floats: it has a row for each input, not for each output. One of MXFP4 has a row for each output
   * nevertheless.
   */
  readonly turned?: boolean;
  /** Of a `part` of a tensor of floats: each of its blocks has a row for each input, not for each output. */
  readonly turnedBlocks?: boolean;
  /**
   * The tensor has the weights of all layers, one after another, as rows or as columns of a matrix; or all layers have
   * the same one. Its name is of no layer.
   */
  readonly ofAllLayers?: 'rows' | 'columns' | 'same';
  /** Of a vector: the shape in which its file has it. Default: one dimension. */
  readonly shape?: readonly number[];
  /** Added to every element on loading. */
  readonly add?: number;
  /** Of a layer's weight: which layers have it. Default: all. */
  readonly layers?: (layer: number) => boolean;
  /** The tensor has as many elements in another shape, one after another as they are wanted. */
  readonly reshaped?: boolean;
  /** The weight is a vector whose parts are so many tensors; `{piece}` in the name is the number of one. */
  readonly pieces?: number;
  /** Bound only where the file has the tensor. */
  readonly optional?: boolean;
  /** What other checkpoints call it: taken where the file has no tensor of the first name. */
  readonly otherwise?: string;
  /** Of a layer's: those before this one have no such weight. Default 0. */
  readonly fromLayer?: number;
}

/**
 * The rows of a fused tensor are `groups` groups, each made of consecutive blocks of `sizes` rows; this weight is block
 * `index` of every group, one after another; of several blocks, all groups' first one before all groups' second one.
 */
export interface FusedPart {
  readonly groups: number;
  readonly sizes: readonly number[];
  readonly index: number | readonly number[];
}
