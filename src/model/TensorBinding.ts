import type { GlobalRole, LayerRole } from './architectures/weightRoles.js';
import type { CompressedType, WeightType } from './weightTypes.js';

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
