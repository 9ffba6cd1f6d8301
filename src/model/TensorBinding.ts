/** Element types of weights as they stand in a file. The numbers are GGML's type ids, where GGML has one. */
export const WEIGHT_TYPES = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 6,
  Q5_1: 7,
  Q8_0: 8,
  Q2_K: 10,
  Q3_K: 11,
  Q4_K: 12,
  Q5_K: 13,
  Q6_K: 14,
  BF16: 30,
} as const;
export type WeightType = keyof typeof WEIGHT_TYPES;

/**
 * What matrices can be compressed to: Q4_G64 is 4 bits in groups of 64 with a scale and a minimum, which no file has.
 */
export type CompressedType = 'Q4_G64' | 'Q8_0';

/** Elements and bytes of one block of a row (ggml-common.h); rows are whole blocks. */
export const WEIGHT_BLOCKS: Readonly<Record<WeightType, { readonly elements: number; readonly bytes: number }>> = {
  F32: { elements: 1, bytes: 4 },
  F16: { elements: 1, bytes: 2 },
  BF16: { elements: 1, bytes: 2 },
  Q8_0: { elements: 32, bytes: 34 },
  Q4_0: { elements: 32, bytes: 18 },
  Q4_1: { elements: 32, bytes: 20 },
  Q5_0: { elements: 32, bytes: 22 },
  Q5_1: { elements: 32, bytes: 24 },
  Q2_K: { elements: 256, bytes: 84 },
  Q3_K: { elements: 256, bytes: 110 },
  Q4_K: { elements: 256, bytes: 144 },
  Q5_K: { elements: 256, bytes: 176 },
  Q6_K: { elements: 256, bytes: 210 },
};

/**
 * The weights that the decoder asks for, by role. Matrices are [outputs, inputs], row-major; `layer` weights exist once
 * a layer. `expert.N.*` stand for one expert of a mixture.
 */
export type GlobalRole =
  | 'token_embedding' // matrix [vocabulary, embedding.size]
  | 'position_embedding' // matrix [positions, hidden]
  | 'embedding_projection' // matrix [hidden, embedding.size] (OPT project_in)
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
  | 'post_norm2.weight' // residual `sandwich`
  | 'q.weight'
  | 'q.bias'
  | 'k.weight'
  | 'k.bias'
  | 'v.weight'
  | 'v.bias'
  | 'o.weight'
  | 'o.bias'
  | 'q_norm.weight'
  | 'k_norm.weight' // vectors [headDim]
  | 'gate.weight'
  | 'up.weight'
  | 'up.bias'
  | 'down.weight'
  | 'down.bias'
  | 'router.weight'
  | `expert.${number}.gate.weight`
  | `expert.${number}.up.weight`
  | `expert.${number}.down.weight`;

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
  /** Of a matrix: stored in this type instead, as `compressBindings` says. Default: as in the file. */
  readonly compressed?: CompressedType;
  /** Added to every element of a vector on loading (Gemma's norms in safetensors: 1). Default 0. */
  readonly add?: number;
}
