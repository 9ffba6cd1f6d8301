import type { DecoderSpec, PooledLayer } from './DecoderSpec.js';
import type { WeightType } from './weightTypes.js';
import type { BlockScales, CodedFloats, Float8Scales, PackedIntegers, TensorBinding } from './TensorBinding.js';

/** A tensor as its file lists it, for `inspect` and for binding. */
export interface TensorInfo {
  readonly name: string;
  readonly type: WeightType | 'F8_E4M3';
  /** Slowest dimension first, as PyTorch writes it: [outputs, inputs]. */
  readonly shape: readonly number[];
  /** Index into `ModelSource.files`, and the byte range there; checked against the file's size. */
  readonly file: number;
  readonly offset: number;
  readonly bytes: number;
  /** The scales of F8_E4M3, once they have been found among the other tensors. */
  readonly scales?: Float8Scales;
  /** The scales of MXFP4 in safetensors, which are a tensor of their own: `bytes` are those of the blocks. */
  readonly blockScales?: BlockScales;
  /**
   * The packed integers that a matrix in safetensors is made of: `type` is what the matrix becomes, `bytes` are theirs.
   */
  readonly packed?: PackedIntegers;
  /** The 4-bit floats that a matrix in safetensors is made of: likewise. */
  readonly coded?: CodedFloats;
}

/** The way in which a model classifies rows: `DecoderSpec.pooled` ends in a logit a label. */
export interface SequenceClassifier {
  /** In the order of the outputs. */
  readonly labels: readonly string[];
  /** Which hidden states its layers take. */
  readonly pooling: 'cls' | 'mean' | 'last';
  /** Each label is judged by itself (a sigmoid), not beside the others (a softmax). */
  readonly independent: boolean;
}

/**
 * The header that a format reader hands to `describeModel`: nothing of it is trusted yet but the tensors' byte ranges
 * and shapes. GGUF metadata: numbers and safe 64-bit integers as number, larger ones as bigint, numeric arrays as typed
 * arrays, others as arrays.
 */
export type ModelHeader =
  | {
      readonly format: 'gguf';
      readonly path: string;
      readonly metadata: ReadonlyMap<string, unknown>;
      readonly tensors: readonly TensorInfo[];
      /** Contents of those tensors of `AUXILIARY_VECTORS` that the file has. */
      readonly vectors: ReadonlyMap<string, Float32Array>;
    }
  | {
      readonly format: 'safetensors';
      readonly path: string;
      readonly config: unknown;
      readonly tensors: readonly TensorInfo[];
      /** Elements of tensors that have one each and belong to the description (`DESCRIBING_NUMBERS`). Default: none. */
      readonly numbers?: ReadonlyMap<string, number>;
      /** Layers that the folder has over pooled states, in order. Default: none. */
      readonly modules?: readonly PooledModule[];
      /** Tokens of the longest row that it is meant for, of an encoder. Default: as many as it has positions. */
      readonly rowTokens?: number;
    };

/** A layer over pooled states, and its tensors, whose names are its own. */
export interface PooledModule {
  readonly layer: PooledLayer;
  readonly weight: TensorInfo;
  readonly bias?: TensorInfo;
}

/**
 * GGUF tensors whose contents belong to the description of the model: factors on rotary frequencies. A reader reads
 * those that a file has into `ModelHeader.vectors`; they are F32 and at most `AUXILIARY_VECTOR_ELEMENTS` long, or the
 * file is refused.
 */
export const AUXILIARY_VECTORS = [
  'rope_freqs.weight',
  'rope_factors_short.weight',
  'rope_factors_long.weight',
] as const;
export const AUXILIARY_VECTOR_ELEMENTS = 4096;
/** Names of safetensors of one element each whose contents belong to the description: numbers of activations. */
export const DESCRIBING_NUMBERS = /\.act_fn\.(alpha_[np]|beta|eps)$/;

/** The way in which a model classifies rows: `DecoderSpec.pooled` ends in a logit a label. */
export interface SequenceClassifier {
  /** In the order of the outputs. */
  readonly labels: readonly string[];
  /** Which hidden states its layers take. */
  readonly pooling: 'cls' | 'mean' | 'last';
  /** Each label is judged by itself (a sigmoid), not beside the others (a softmax). */
  readonly independent: boolean;
}

/** Everything about a model but its weights' contents: read from headers, validated, ready to be bound. Plain data. */
export interface ModelSource {
  /** Path as the user named it: a file or a folder. */
  readonly path: string;
  readonly format: 'gguf' | 'safetensors';
  readonly files: readonly string[];
  readonly decoder: DecoderSpec;
  readonly bindings: readonly TensorBinding[];
  readonly tensors: readonly TensorInfo[];
  readonly tokenizer: TokenizerSource;
  /**
   * How the model's files say that hidden states become an embedding, or what they say that we do not know; undefined
   * where they say nothing.
   */
  readonly pooling?: (typeof FILE_POOLINGS)[number] | { readonly unknown: string };
  /** The meaning of its pooled layers' outputs, where these classify rows. */
  readonly classifier?: SequenceClassifier;
  /** Usually computed in 8 bits, weights and activations: measured to answer alike. Default false. */
  readonly eightBits?: boolean;
  /** Texts that its files put before others, by what these are for, as sentence-transformers has them. */
  readonly prompts?: EmbeddingPrompts;
}

/** Ways of pooling that files name. */
export const FILE_POOLINGS = ['last', 'mean', 'cls', 'max', 'weightedmean'] as const;

export interface EmbeddingPrompts {
  readonly texts: Readonly<Record<string, string>>;
  /** The name of the one that is used where nobody says which. Default: none is. */
  readonly usual?: string | undefined;
}

/**
 * The source that the tokenizer is built from; the two formats differ only here. `json` values are as parsed, not yet
 * validated.
 */
export type TokenizerSource =
  | {
      readonly kind: 'gguf';
      /** Metadata whose keys start with `tokenizer.`, as parsed. */ readonly metadata: ReadonlyMap<string, unknown>;
    }
  | {
      readonly kind: 'tokenizer.json';
      readonly file: string;
      readonly tokenizer: unknown;
      /** tokenizer_config.json, {} if absent. */
      readonly config: unknown;
      /** chat_template.jinja, if there is one; else the template stands in `config.chat_template`. */
      readonly chatTemplate?: string;
      /** The templates of the folder additional_chat_templates, by name. */
      readonly additionalChatTemplates?: Readonly<Record<string, string>>;
      /** eos_token_id of generation_config.json, else of config.json: all ids that end a row. */
      readonly endTokens: readonly number[];
    }
  | {
      readonly kind: 'none';
      /** Why there is none; rows with `tokens` still work. */
      readonly reason: string;
      /** Ids that end a row, which a model may declare without a tokenizer. Default none. */
      readonly endTokens?: readonly number[];
    };
