/** A model worth having, by the name that fetches it. */
export interface SuggestedModel {
  readonly name: string;
  /** About, in bytes. */
  readonly bytes: number;
  readonly license: string;
  readonly description: string;
}

const GB = 1e9;

/**
 * The models that `pull --list` shows beside the known models. The names are those under which their makers publish;
 * neither a revision nor a hash is given, as nobody has verified one: what arrives is checked against the hub's own
 * hashes, and `@REVISION` pins it.
 */
export const suggestedModels: readonly SuggestedModel[] = [
  {
    name: 'hf:Qwen/Qwen3-0.6B-GGUF:Q8_0',
    bytes: 0.64 * GB,
    license: 'Apache-2.0',
    description: 'labels and short answers on any machine; many languages',
  },
  {
    name: 'hf:Qwen/Qwen3-1.7B-GGUF:Q8_0',
    bytes: 1.8 * GB,
    license: 'Apache-2.0',
    description: 'extraction and summaries of short texts',
  },
  {
    name: 'hf:Qwen/Qwen3-4B-GGUF:Q4_K_M',
    bytes: 2.5 * GB,
    license: 'Apache-2.0',
    description: 'a good start for most work on 8 GB',
  },
  {
    name: 'hf:Qwen/Qwen3-8B-GGUF:Q4_K_M',
    bytes: 5.0 * GB,
    license: 'Apache-2.0',
    description: 'reasoning, extraction, long texts; 16 GB',
  },
  {
    name: 'hf:Qwen/Qwen3-14B-GGUF:Q4_K_M',
    bytes: 9.0 * GB,
    license: 'Apache-2.0',
    description: 'as above, better; 16 GB and a little patience',
  },
  {
    name: 'hf:Qwen/Qwen3-32B-GGUF:Q4_K_M',
    bytes: 19.8 * GB,
    license: 'Apache-2.0',
    description: 'larger than many memories: streams from disk',
  },
  {
    name: 'hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M',
    bytes: 0.49 * GB,
    license: 'Apache-2.0',
    description: 'the smallest that follows instructions',
  },
  {
    name: 'hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M',
    bytes: 1.1 * GB,
    license: 'Apache-2.0',
    description: 'labels and extraction, fast',
  },
  {
    name: 'hf:HuggingFaceTB/SmolLM2-360M-Instruct',
    bytes: 0.72 * GB,
    license: 'Apache-2.0',
    description: 'English, small, in 16 bits',
  },
  {
    name: 'hf:HuggingFaceTB/SmolLM2-1.7B-Instruct',
    bytes: 3.4 * GB,
    license: 'Apache-2.0',
    description: 'English, in 16 bits',
  },
  {
    name: 'hf:microsoft/Phi-3-mini-4k-instruct-gguf:Phi-3-mini-4k-instruct-q4.gguf',
    bytes: 2.4 * GB,
    license: 'MIT',
    description: 'English: reasoning on 8 GB',
  },
  {
    name: 'hf:google/gemma-3-1b-it',
    bytes: 2.0 * GB,
    license: 'Gemma',
    description: 'many languages; gated: accept its terms first',
  },
];
