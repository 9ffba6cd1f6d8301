import type { DecoderSpec } from '../DecoderSpec.js';
import type { SequenceClassifier } from '../ModelSource.js';
import type { GlobalRole, LayerRole } from './weightRoles.js';
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

/** The fields that a GGUF file states of its model, their keys without the architecture's prefix. */
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
  /** The number of each layer in the tensors' names, where some of the file's layers are left out. Default: its own. */
  readonly layerNumbers?: readonly number[];
  /** The same of their feed-forward blocks, where these are layers of their own there. Default: the layer's. */
  readonly blockNumbers?: readonly number[];
  /**
   * For an encoder whose products have weights and activations of 8 bits each, where nobody says otherwise and its file
   * has more. There where that was measured to give embeddings of a cosine of 0.999 to float32's. Default: none has.
   */
  readonly eightBits?: EightBits;
  /** The meaning of its pooled layers' outputs, where these classify. */
  readonly classifier?: SequenceClassifier;
}

/**
 * The products of an encoder that 8 bits are not enough for, and that are computed in 16: of a role, in layers from
 * this share of all on.
 */
export interface EightBits {
  readonly except: readonly { readonly role: LayerRole; readonly from: number }[];
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
   * True for a tensor of floats that has a row for each input, not for each output. A tensor of MXFP4 has a row for
   * each output nevertheless.
   */
  readonly turned?: boolean;
  /** True for a `part` of a tensor of floats where each of its blocks has a row for each input, not for each output. */
  readonly turnedBlocks?: boolean;
  /**
   * The tensor has the weights of all layers, one after another, as rows or as columns of a matrix; or all layers have
   * the same one. Its name is of no layer.
   */
  readonly ofAllLayers?: 'rows' | 'columns' | 'same';
  /** The shape that a vector has in its file. Default: one dimension. */
  readonly shape?: readonly number[];
  /** Added to every element on loading. */
  readonly add?: number;
  /** The layers that have a layer's weight. Default: all. */
  readonly layers?: (layer: number) => boolean;
  /** The tensor has as many elements in another shape, one after another as they are wanted. */
  readonly reshaped?: boolean;
  /**
   * The weight is a vector whose parts are so many tensors; `{piece}` in the name is the number of one,
   * or its name.
   */
  readonly pieces?: number | readonly string[];
  /** These are as long as their tensors say, and have the weight's elements together. Default: all are equal. */
  readonly unequal?: boolean;
  /** Bound only where the file has the tensor. */
  readonly optional?: boolean;
  /** The tensor's name in other checkpoints: taken where the file has no tensor of the first name. */
  readonly otherwise?: string;
  /** The first layer that has a layer's weight: those before it have none. Default 0. */
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
