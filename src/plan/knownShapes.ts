import { UsageError } from '../errors/UsageError.js';
import { describeDecoder } from '../model/architectures/index.js';
import type { WeightType } from '../model/weightTypes.js';
import { shapeOfDecoder, withWeightBytes, type ModelShape } from './ModelShape.js';

type Config = Readonly<Record<string, unknown>>;
interface KnownShape {
  readonly config: Config;
  readonly tied: boolean;
  readonly weightType?: WeightType;
}

/** The shape of a model that is known from papers alone: sizes, without any weights. */
type PaperShape = Pick<
  ModelShape,
  | 'layers'
  | 'hiddenSize'
  | 'feedForwardSize'
  | 'feedForwardMatrices'
  | 'residual'
  | 'heads'
  | 'kvHeads'
  | 'headDim'
  | 'vocabularySize'
  | 'rotaryElements'
> & { readonly tied: boolean };

/**
 * OPT's sizes (Zhang et al. 2022, table 1): layers, heads, hidden size; the feed-forward block is four times as wide.
 */
function opt(layers: number, heads: number, hidden: number, more: Config = {}): KnownShape {
  return {
    config: {
      model_type: 'opt',
      num_hidden_layers: layers,
      num_attention_heads: heads,
      hidden_size: hidden,
      ffn_dim: 4 * hidden,
      word_embed_proj_dim: hidden,
      vocab_size: 50272,
      max_position_embeddings: 2048,
      do_layer_norm_before: true,
      ...more,
    },
    tied: true,
  };
}

function gated(
  type: string,
  layers: number,
  heads: number,
  kvHeads: number,
  hidden: number,
  inner: number,
  vocabulary: number,
  context: number,
  more: Config = {},
): KnownShape {
  return {
    config: {
      model_type: type,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      hidden_size: hidden,
      intermediate_size: inner,
      vocab_size: vocabulary,
      max_position_embeddings: context,
      ...more,
    },
    tied: more.tie_word_embeddings === true,
  };
}

const KNOWN: Readonly<Record<string, KnownShape>> = {
  'opt-125m': opt(12, 12, 768),
  'opt-350m': opt(24, 16, 1024, { word_embed_proj_dim: 512, do_layer_norm_before: false }),
  'opt-1.3b': opt(24, 32, 2048),
  'opt-2.7b': opt(32, 32, 2560),
  'opt-6.7b': opt(32, 32, 4096),
  'opt-13b': opt(40, 40, 5120),
  'opt-30b': opt(48, 56, 7168),
  'opt-66b': opt(64, 72, 9216),
  'opt-175b': opt(96, 96, 12288),
  'llama-7b': gated('llama', 32, 32, 32, 4096, 11008, 32000, 2048),
  'llama-13b': gated('llama', 40, 40, 40, 5120, 13824, 32000, 2048),
  'llama-30b': gated('llama', 60, 52, 52, 6656, 17920, 32000, 2048),
  'llama-65b': gated('llama', 80, 64, 64, 8192, 22016, 32000, 2048),
  'llama-2-7b': gated('llama', 32, 32, 32, 4096, 11008, 32000, 4096),
  'llama-2-13b': gated('llama', 40, 40, 40, 5120, 13824, 32000, 4096),
  'llama-2-70b': gated('llama', 80, 64, 8, 8192, 28672, 32000, 4096),
  'llama-3-8b': gated('llama', 32, 32, 8, 4096, 14336, 128256, 8192),
  'llama-3-70b': gated('llama', 80, 64, 8, 8192, 28672, 128256, 8192),
  'mistral-7b': gated('mistral', 32, 32, 8, 4096, 14336, 32000, 32768, { sliding_window: null }),
  'mixtral-8x7b': gated('mixtral', 32, 32, 8, 4096, 14336, 32000, 32768, {
    num_local_experts: 8,
    num_experts_per_tok: 2,
  }),
  'qwen2-7b': gated('qwen2', 28, 28, 4, 3584, 18944, 152064, 32768),
  'qwen2-72b': gated('qwen2', 80, 64, 8, 8192, 29568, 152064, 32768),
  'qwen3-8b': gated('qwen3', 36, 32, 8, 4096, 12288, 151936, 40960, { head_dim: 128 }),
  'qwen3-30b-a3b': gated('qwen3_moe', 48, 32, 4, 2048, 6144, 151936, 40960, {
    head_dim: 128,
    num_experts: 128,
    num_experts_per_tok: 8,
    moe_intermediate_size: 768,
    norm_topk_prob: true,
  }),
  'smollm2-135m': gated('llama', 30, 9, 3, 576, 1536, 49152, 8192, { tie_word_embeddings: true }),
  'smollm2-1.7b': gated('llama', 24, 32, 32, 2048, 8192, 49152, 8192, { tie_word_embeddings: true }),
};

/** PaLM's sizes (Chowdhery et al. 2022, table 1): multiquery attention, a gated feed-forward block beside it. */
function palm(layers: number, heads: number, hiddenSize: number): PaperShape {
  return {
    layers,
    hiddenSize,
    feedForwardSize: 4 * hiddenSize,
    feedForwardMatrices: 3,
    residual: 'parallel',
    heads,
    kvHeads: 1,
    headDim: 256,
    vocabularySize: 256_000,
    rotaryElements: 256,
    tied: true,
  };
}

/** Models of no family that is read: to be planned for, as the partitioning papers do. All of 2048 tokens. */
const FROM_PAPERS: Readonly<Record<string, PaperShape>> = {
  'palm-8b': palm(32, 16, 4096),
  'palm-62b': palm(64, 32, 8192),
  'palm-540b': palm(118, 48, 18432),
  // Smith et al. 2022, section 3.2, and Pope et al., table D.1.
  'megatron-530b': {
    layers: 105,
    hiddenSize: 20480,
    feedForwardSize: 81920,
    feedForwardMatrices: 2,
    residual: 'pre',
    heads: 128,
    kvHeads: 128,
    headDim: 160,
    vocabularySize: 51200,
    rotaryElements: 0,
    tied: true,
  },
};

/** Models whose sizes are known without any file. */
export const knownShapeNames: readonly string[] = [...Object.keys(KNOWN), ...Object.keys(FROM_PAPERS)];

/** The shape of a model that is known by name, in 16-bit weights; undefined for any other name. */
export function knownShape(name: string): ModelShape | undefined {
  const key = name.toLowerCase();
  const known = Object.hasOwn(KNOWN, key) ? KNOWN[key] : undefined;
  if (known !== undefined) return shapeOfDecoder(describeDecoder(known.config, key), key, known);
  const paper = Object.hasOwn(FROM_PAPERS, key) ? FROM_PAPERS[key] : undefined;
  return paper && shapeOfPaper(key, paper);
}

function shapeOfPaper(name: string, { tied, ...sizes }: PaperShape): ModelShape {
  const bare = {
    ...sizes,
    name,
    contextTokens: 2048,
    weightType: 'F16',
    layerWeightBytes: 0,
    globalWeightBytes: 0,
  } as const;
  const table = bare.vocabularySize * bare.hiddenSize;
  return withWeightBytes(bare, table, tied ? 0 : table);
}

/** @throws UsageError for a name that is not known */
export function requireKnownShape(name: string): ModelShape {
  const shape = knownShape(name);
  if (shape === undefined)
    throw new UsageError(
      `model: found ${JSON.stringify(name)}, expected one of ${knownShapeNames.join(', ')}, or a model's file, folder or config.json`,
    );
  return shape;
}
