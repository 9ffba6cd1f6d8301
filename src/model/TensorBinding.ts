import type { CompressedType, WeightType } from './weightTypes.js';

/**
 * The weights that the decoder asks for, by role. Matrices are [outputs, inputs], row-major; `layer` weights exist once
 * a layer. `expert.N.*` stand for one expert of a mixture.
 */
export type GlobalRole =
  | 'token_embedding' // matrix [vocabulary, embedding.size]
  | 'position_embedding' // matrix [positions, hidden]
  | 'type_embedding' // matrix [token types, hidden]
  | 'embedding_norm.weight'
  | 'embedding_norm.bias' // vectors [hidden]
  | 'relative_bias' // matrix [buckets, heads]
  | 'distance_embedding' // matrix [2 x span, hidden], of disentangled attention, as are
  | 'distance_norm.weight' // vectors [hidden]
  | 'distance_norm.bias'
  | `pooled.${number}.${'weight' | 'bias'}` // matrix [outputs, inputs] or, of a norm, vector [outputs]; vector [outputs]
  | 'embedding_projection' // matrix [hidden, embedding.size] (OPT project_in)
  | 'embedding_projection.bias' // vector [hidden]
  | `stream_${'in' | 'out'}.${1 | 2 | 3}` // matrices [hidden, hidden]
  | 'output_projection' // matrix [embedding.size, hidden] (OPT project_out)
  | 'final_norm.weight'
  | 'final_norm.bias' // vectors [hidden]
  | 'head.weight' // matrix [vocabulary, embedding.size]; absent when tied to token_embedding
  | 'head.bias';
export type LayerRole =
  | 'norm1.weight'
  | 'norm1.bias' // before (or, residual `post`, after) attention
  | 'norm2.weight'
  | 'norm2.bias' // before (or after) the feed-forward block
  | 'post_norm1.weight'
  | 'post_norm2.weight' // residual `sandwich` or `branch`
  | 'q.weight'
  | 'q.bias'
  | 'k.weight'
  | 'k.bias'
  | 'v.weight'
  | 'v.bias'
  | 'o.weight'
  | 'o.bias'
  | 'q_norm.weight'
  | 'q_norm.bias'
  | 'k_norm.weight' // vectors [headDim], or of all heads
  | 'k_norm.bias' // of layer norms
  | 'q_down.weight' // matrix [queryRank, hidden], of latent attention, as are
  | 'q_down.bias'
  | 'q_down_norm.weight'
  | 'q_distance.weight' // queries and keys of distances, of disentangled attention with products of their own
  | 'q_distance.bias'
  | 'k_distance.weight'
  | 'k_distance.bias'
  | 'latent.weight' // matrix [rank + rotated, hidden]
  | 'latent.bias'
  | 'latent_norm.weight' // vector [rank]
  | 'k_up.weight' // matrix [heads x rank, plain]: what a head's query becomes
  | 'v_up.weight' // matrix [heads x value, rank]
  | 'sinks' // vector [heads]
  | 'q_gate.weight' // matrix [heads x headDim, hidden]
  | 'conv.weight' // vector [hidden x taps], of `short-convolution`, as are
  | 'conv.bias'
  | 'conv_in.weight' // matrix [3 x hidden, hidden]: B, C and x
  | 'conv_out.weight'
  | 'decay.log' // vectors [heads], of `delta-rule` and `state-space`
  | 'decay.negated'
  | 'decay.bias'
  | 'delta_conv.weight' // vector [channels x taps], of `delta-rule`, as are
  | 'delta_norm.weight' // vector [valueDim]
  | 'delta_in.weight' // matrix [channels, hidden]: queries, keys and values
  | 'delta_q.weight' // the same of decays by key, apart
  | 'delta_k.weight'
  | 'delta_v.weight'
  | 'delta_gate_in.weight' // matrices [rank, hidden], of decays by key
  | 'delta_decay_in.weight'
  | 'delta_gate.weight' // matrix [valueHeads x valueDim, hidden or rank]
  | 'delta_beta.weight' // matrix [valueHeads, hidden]
  | 'delta_decay.weight' // matrix [valueHeads, hidden], or [valueHeads x keyDim, hidden or rank]
  | 'delta_out.weight' // matrix [hidden, valueHeads x valueDim]
  | 'state_conv.weight' // vector [channels x taps], of `state-space`, as are
  | 'state_conv.bias'
  | 'state_skip' // vector [heads]
  | 'state_norm.weight' // vector [heads x headDim]
  | 'state_in.weight' // matrix [channels + heads x headDim + heads, hidden]: what is convolved, gate and time steps
  | 'state_in.bias'
  | 'state_out.weight' // matrix [hidden, heads x headDim]
  | 'state_out.bias'
  | 'beside_out.weight' // the same of a state space beside attention
  | 'beside_out.bias'
  | 'scan_conv.weight' // vector [channels x taps] of a selective scan
  | 'scan_conv.bias'
  | 'scan_skip' // vector [channels]
  | 'scan_in.weight' // matrix [2 x channels, hidden]: what is convolved, and gates
  | 'scan_in.bias'
  | 'scan_parts.weight' // matrix [rank + 2 x stateDim, channels]: of time steps, and what states are written and read by
  | 'scan_step_norm.weight'
  | 'scan_written_norm.weight'
  | 'scan_read_norm.weight'
  | 'scan_step.weight' // matrix [channels, rank]
  | 'scan_out.weight' // matrix [hidden, channels]
  | 'scan_out.bias'
  | 'lightning_in.weight' // matrix [heads x 3 x headDim, hidden]: each head's query, key and value
  | 'lightning_gate.weight' // matrix [heads x headDim, hidden]
  | 'lightning_norm.weight' // vector [heads x headDim]
  | 'lightning_out.weight' // matrix [hidden, heads x headDim]
  | 'stream_norm.weight' // vector [hidden], of streams, as are
  | 'stream_router' // vectors [streams x hidden],
  | 'stream_predict' // [streams x streams x streams],
  | 'stream_correct' // [streams x streams],
  | 'stream_scale' // [hidden]
  | 'bypass_in.weight' // matrix [bypassRank, hidden]
  | 'bypass_out.weight' // matrix [hidden, bypassRank]
  | 'bypass_norm.weight'
  | 'gate.weight'
  | 'gate.bias'
  | 'up.weight'
  | 'up.bias'
  | 'down.weight'
  | 'down.bias'
  | 'router.weight'
  | 'router.bias'
  | 'router.choice_bias' // vector [experts]
  | 'shared_gate.weight' // matrix [1, hidden]
  | 'router_norm.weight' // vectors [hidden] of a mixture apart, as are
  | 'experts_norm.weight'
  | 'post_experts_norm.weight'
  | 'post_block_norm.weight'
  | 'expert_scale' // vector [experts]
  | 'input_embedding' // matrix [vocabulary, layerInputs], of what a layer gets of a token, as are
  | 'input_projection.weight' // matrices [layerInputs, hidden]
  | 'input_gate.weight'
  | 'input_norm.weight' // vector [layerInputs]
  | 'input_out.weight' // matrix [hidden, layerInputs]
  | 'input_post_norm.weight' // vector [hidden]
  | 'layer_scale' // vector [1]
  | `expert.${number}.${'gate' | 'up' | 'down'}.${'weight' | 'bias'}`;

/**
 * A run of consecutive rows of a matrix (or of consecutive elements of a vector: `rows` elements, rowBytes = element
 * size) in a file.
 */
export interface TensorSegment {
  /** Index into the model's list of files. */
  readonly file: number;
  /** Byte offset in that file. */
  readonly offset: number;
  readonly rows: number;
  /** These are the first, and every so-manieth after it, of the rows that lie there. Default 1. */
  readonly step?: number;
}

/**
 * The scales of a matrix of MXFP4 whose file has blocks and scales as tensors of their own: 16 bytes a block, elements
 * that are neighbours in a byte, the first of them in its low half; and a byte a scale.
 */
export interface BlockScales {
  /** Index into the model's list of files. */
  readonly file: number;
  /** Byte offset of the first scale in that file. */
  readonly offset: number;
}

/**
 * The scales of a matrix that its file has as 8-bit floats (E4M3): each element is to be multiplied by that of its
 * block. They lie row-major; the blocks at the tensor's ends may be cut off.
 */
export interface Float8Scales {
  /** Index into the model's list of files. */
  readonly file: number;
  /** Byte offset of the first scale in that file. */
  readonly offset: number;
  readonly type: 'F32' | 'F16' | 'BF16';
  readonly blockRows: number;
  /** At least 16, or all columns. */
  readonly blockColumns: number;
}

/** Where a tensor begins. */
export interface FilePlace {
  /** Index into the model's list of files. */
  readonly file: number;
  readonly offset: number;
}

/**
 * Integers that a quantiser packed, with scales, perhaps zero points and perhaps the group of each input in tensors of
 * their own: an element is scale x (integer - zero point).
 */
export interface PackedIntegers {
  /**
   * `rows`: [outputs, inputs], neighbours among the inputs in one byte, the first in its low half. `inputs`: words
   * [inputs / n, outputs] of n inputs each (GPTQ). `outputs`: words [inputs, outputs / n] of n outputs each, the even
   * ones first (AWQ).
   */
  readonly order: 'rows' | 'inputs' | 'outputs';
  readonly bits: 4 | 8;
  /** Bytes have a sign, and count as 128 more. */
  readonly signed: boolean;
  /** Inputs that share a scale and a zero point. */
  readonly group: number;
  /** Outputs of the tensors. */
  readonly tensorRows: number;
  /** The zero point of all; or what is added to each that `zeros` has. */
  readonly zero: number;
  readonly values: FilePlace;
  readonly scales: FilePlace;
  readonly scaleType: 'F32' | 'F16' | 'BF16';
  /** Scales are values of this integer, and not of 1. */
  readonly scaleOf?: number;
  /** Scales are [groups, outputs], and zero points [groups, outputs / n] words; else the other way round. */
  readonly groupsFirst: boolean;
  readonly zeros?: FilePlace;
  /** Zero points are bytes with a sign, [outputs, groups]. Default: words. */
  readonly zeroBytes?: boolean;
  readonly groupIndex?: FilePlace;
}

/**
 * Floats of four bits, numbers of a codebook, two neighbours a byte: an element is its code's float times the scale of
 * its group. Groups are counted through all rows.
 */
export interface CodedFloats {
  /** Outputs of the tensor. */
  readonly tensorRows: number;
  /** The first of two neighbours is the high half of their byte. */
  readonly highFirst: boolean;
  /** Neighbours that share a scale. */
  readonly group: number;
  readonly values: FilePlace;
  readonly scales: FilePlace;
  /** U8: as `nested` says. */
  readonly scaleType: 'F32' | 'F8_E4M3' | 'U8';
  /** Sixteen F32. Default: the values of E2M1. */
  readonly codebook?: FilePlace;
  /** Bytes are places in a map of 256 F32, whose number is multiplied by a scale of a group of them, plus `offset`. */
  readonly nested?: {
    readonly map: FilePlace;
    readonly scales: FilePlace;
    readonly group: number;
    readonly offset: number;
  };
  /** An F32 that all scales are multiplied or divided by. */
  readonly global?: FilePlace;
  readonly globalDivides?: boolean;
}

/**
 * Where a weight comes from. A fused tensor (GPT-NeoX query_key_value, Phi-3 gate_up_proj) is bound several times, each
 * time with the segments of the rows that belong to the role, in the role's order.
 */
export interface TensorBinding {
  readonly role: GlobalRole | LayerRole;
  /** -1 for weights that are not a layer's. */
  readonly layer: number;
  readonly kind: 'matrix' | 'vector';
  /** Vectors are F32, F16 or BF16. */
  readonly type: WeightType;
  /** Outputs of a matrix; elements of a vector. The sum of the segments' rows. */
  readonly rows: number;
  /** Inputs of a matrix; 1 for a vector. */
  readonly columns: number;
  readonly segments: readonly TensorSegment[];
  /** 8 bits are not enough for a matrix of an encoder: it stays as it is where others become 8 bits, and has 16. */
  readonly notEightBits?: true;
  /** The type in which a matrix is stored instead, as `compressBindings` says. Default: as in the file. */
  readonly compressed?: CompressedType;
  /**
   * The scales of a matrix whose file has one byte an element: the matrix becomes `type`, which is F16, while it is
   * read. With the whole tensor's byte offset and rows, which the blocks divide, as they lie in the file (`inputRow`).
   */
  readonly float8?: Float8Scales & { readonly tensorOffset: number; readonly tensorRows: number };
  /**
   * The scales of a matrix of MXFP4 in two tensors: segments are rows of the blocks, whose tensor begins at this byte
   * offset.
   */
  readonly blockScales?: BlockScales & { readonly tensorOffset: number };
  /**
   * The packing of a matrix of packed integers: the matrix becomes `type`, of the same values, while it is read.
   * Segments' offsets are numbers of rows.
   */
  readonly packed?: PackedIntegers;
  /** The codes of a matrix of 4-bit floats: likewise, `type` being one of floats. */
  readonly coded?: CodedFloats;
  /**
   * The number of elements in each row of a matrix of floats, 8-bit ones too, that lies with a row for each input.
   * Segments begin with the first input's.
   */
  readonly inputRow?: number;
  /**
   * The number of elements that rows have in the file, for a matrix that takes some of the inputs of what is there,
   * which lie one after another. Segments begin with the first of these inputs. Default: all of them.
   */
  readonly rowColumns?: number;
  /** Added to every element of a vector on loading (Gemma's norms in safetensors: 1). Default 0. */
  readonly add?: number;
}
