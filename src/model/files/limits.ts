/**
 * Bounds on what a header may hold. They lie well above any model that exists (the largest have some 150,000 tensors, 260,000 tokens
 * and a tokenizer of 35 MB as text) and keep a hostile file from making the process allocate without end.
 */
export const HEADER_LIMITS = {
  /** Tensors of a model, all its files together. */
  tensors: 2 ** 20,
  /** Bytes of a tensor's name or a metadata key. */
  nameBytes: 4096,
  /** Dimensions of a safetensors tensor; GGUF has at most 4. */
  dimensions: 8,
  /** Key-value pairs of a GGUF file. */
  metadataPairs: 65_536,
  /** Arrays inside arrays inside … of a metadata value. */
  arrayDepth: 4,
  /** Bytes of one string in GGUF metadata. */
  stringBytes: 64 * 2 ** 20,
  /** The header of a safetensors file; the format's own bound. */
  safetensorsHeaderBytes: 100_000_000,
  /** tokenizer.json, tokenizer_config.json and the like. */
  tokenizerJsonBytes: 64 * 2 ** 20,
  /** config.json, generation_config.json, a chat template. */
  configJsonBytes: 4 * 2 ** 20,
  /** What the values of one JSON file may take in memory, roughly. */
  jsonMemoryBytes: 192 * 2 ** 20,
  /** What the values of one header may take in memory, roughly. */
  memoryBytes: 512 * 2 ** 20,
} as const;
