export const VECTOR_TYPES = ['float32', 'float16', 'int8', 'uint8', 'binary', 'ubinary'] as const;

/** The type of an embedding's numbers. */
export type VectorType = (typeof VECTOR_TYPES)[number];
