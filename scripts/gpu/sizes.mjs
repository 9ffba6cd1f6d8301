// What is run, at full size on a GPU, and with next to nothing on an emulated one, where it is the scripts that are
// tried.
import { OPT_SHAPES } from './optShapes.mjs';

const GIB = 2 ** 30;
const TINY = { layers: 2, heads: 2, hiddenSize: 32, vocabularySize: 256, contextTokens: 128 };
/** Models of test/fixtures/models: families and types whose kernels differ. Their contexts end at 64 tokens. */
export const FIXTURES = [
  'llama-Q4_1.gguf',
  'llama-Q4_K.gguf',
  'gemma3-mixed.gguf',
  'mixtral-Q8_0.gguf',
  'qwen3-Q8_0.gguf',
  'opt-post-projected',
];
/** Ids that every tiny model has. */
const SMALL_VOCABULARY = 120;
const fixture = (name) => ({
  name,
  fixture: name,
  vocabularySize: SMALL_VOCABULARY,
  promptTokens: 50,
  newTokens: 10,
  gpuMemory: '16MiB',
  engine: { batchSize: 4, tokensPerSquare: 16 },
});

export const FULL = {
  endToEnd: [
    ...FIXTURES.map((name) => ({ ...fixture(name), rows: 12 })),
    {
      name: 'opt-125m shape, random weights',
      shape: OPT_SHAPES['opt-125m'],
      vocabularySize: 50272,
      rows: 16,
      promptTokens: 300,
      newTokens: 24,
      gpuMemory: '1GiB',
      engine: { batchSize: 8, batches: 2 },
      variants: ['float32', 'default', 'default, cuBLASLt where it is'],
    },
  ],
  streaming: {
    shape: OPT_SHAPES['opt-1.3b'],
    vocabularySize: 50272,
    rows: 96,
    batches: 4,
    promptTokens: 128,
    newTokens: 8,
    gpuMemory: '6GiB',
  },
  speed: {
    shapes: OPT_SHAPES,
    caps: { gpuBytes: 16 * GIB, cpuBytes: 200e9 },
    promptTokens: 512,
    newTokens: 32,
    wantedSeconds: 45,
    // That one of the peer's policies may take: it makes its weights first.
    peerSeconds: { 'opt-6.7b': 60, 'opt-30b': 220 },
    profileBudget: 1,
  },
};

export const SMALL = {
  endToEnd: [
    { ...fixture('llama-Q4_1.gguf'), rows: 3 },
    {
      name: 'tiny opt shape, random weights',
      shape: TINY,
      vocabularySize: 256,
      rows: 3,
      promptTokens: 70,
      newTokens: 4,
      gpuMemory: '16MiB',
    },
  ],
  streaming: {
    shape: TINY,
    vocabularySize: 256,
    rows: 2,
    batches: 2,
    promptTokens: 6,
    newTokens: 2,
    gpuMemory: '24MiB',
  },
  // In the place of the real ones.
  speed: {
    shapes: { 'opt-6.7b': TINY, 'opt-30b': TINY },
    standIn: true,
    caps: { gpuBytes: 64 * 2 ** 20, cpuBytes: 16 * GIB },
    promptTokens: 16,
    newTokens: 3,
    wantedSeconds: 0.1,
    mostSeconds: 0.1,
    profileBudget: 0.01,
  },
};
