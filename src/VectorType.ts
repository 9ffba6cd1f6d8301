export const VECTOR_TYPES = ['float32', 'float16', 'int8', 'uint8', 'binary', 'ubinary'] as const;

/** What the numbers of an embedding are. */
export type VectorType = (typeof VECTOR_TYPES)[number];
