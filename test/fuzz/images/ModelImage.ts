import type { GgufTensorInput, GgufValue } from '../../model/support/GgufWriter.js';

/** A JSON value. Trees are never changed in place: images share what they have in common. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = Readonly<Record<string, Json>>;

/** A tensor with its bytes, as either format has it. The bytes are shared by images and never changed in place. */
export interface TensorImage {
  readonly name: string;
  /** A GGUF type, or its number; in safetensors a dtype. */
  readonly type: string | number;
  /** Slowest dimension first. */
  readonly shape: readonly number[];
  readonly data: Uint8Array;
  /** Where the data begins in its section, where that is to be wrong. */
  readonly offset?: number;
}

export interface GgufImage {
  readonly format: 'gguf';
  readonly metadata: readonly (readonly [key: string, value: GgufValue])[];
  readonly tensors: readonly TensorImage[];
  /** Into how many files it is split. */
  readonly files: number;
  readonly alignment: number;
}

export interface FolderImage {
  readonly format: 'folder';
  readonly tensors: readonly TensorImage[];
  /** Into how many files it is split; above 1 with an index. */
  readonly files: number;
  /** Files beside the weights by name: JSON, or text as it stands. */
  readonly documents: Readonly<Record<string, Json>>;
  /** Names of `documents` that are text. */
  readonly texts: readonly string[];
  /** Members put into a header, or replaced there, where it is to be wrong. */
  readonly header: JsonObject;
}

/** What is done to the bytes of a written file, chosen by place so that it fits files of any length. */
export interface Damage {
  /** Which of the files, as a share of their number. */
  readonly file: number;
  readonly kind: 'cut' | 'extend' | 'flip' | 'noise' | 'field' | 'remove' | 'copy';
  /** Where, as a share of the length. */
  readonly at: number;
  readonly value: bigint;
}

/** A model's files before they are written: what mutations change. */
export type ModelImage = (GgufImage | FolderImage) & { readonly damage: readonly Damage[] };

export type GgufTensorType = GgufTensorInput['type'];
