import type { RowAttention } from './RowAttention.js';

/**
 * A transformer, as data: a decoder, or an encoder, whose attention is not causal. An architecture file
 * (`architectures/`) turns a model's configuration into this
 * table; the native addon executes it. A new model family needs no code beyond its own table where the pieces exist.
 */
export interface DecoderSpec {
  /** The family as its own files call it: `llama`, `opt`, `gpt_neox`, … */
  readonly family: string;
  readonly layers: number;
  /**
   * Where these are a part of a model's layers: the number of the first one, and how many the model has. Only the first
   * layer embeds, only the last samples.
   */
  readonly part?: { readonly firstLayer: number; readonly modelLayers: number };
  /**
   * Where these are a share of every layer: which one of how many. Heads, key and value heads and inner width are the
   * share's. Only the first share embeds and samples. Never beside `part`. `attention`: each share attends to some
   * rows with all of these heads. Default: to all rows with its own.
   */
  readonly share?: { readonly index: number; readonly of: number; readonly attention?: RowAttention };
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  /** Tokens of prompt and answer together that the model's position encoding was made for. */
  readonly contextTokens: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Inner width of the feed-forward block (of one expert, for a mixture). */
  readonly feedForwardSize: number;

  readonly norm: {
    readonly kind: 'rms' | 'layer';
    readonly epsilon: number;
    /** Norms of hidden states have neither weights nor biases (OLMo 1). Default false. */
    readonly unweighted?: boolean;
  };
  /**
   * Where the norms stand and how the branches are added.
   * - `pre`: h += attn(norm1 h); h += ffn(norm2 h), which layers with experts may norm once more (A.X K1)
   * - `post` (OPT-350m): h = norm1(h + attn h); h = norm2(h + ffn h)
   * - `sandwich` (Gemma 2 and 3): h += postNorm1(attn(norm1 h)); h += postNorm2(ffn(norm2 h))
   * - `branch` (OLMo 2, EXAONE 4): h += postNorm1(attn h); h += postNorm2(ffn h)
   * - `parallel` (GPT-NeoX, Falcon): h += attn(norm1 h) + ffn(norm2 h); without a norm2 tensor both read norm1 h
   */
  readonly residual: 'pre' | 'post' | 'sandwich' | 'branch' | 'parallel';
  /** A branch is multiplied by this before it is added (Granite). Default 1. */
  readonly residualScale?: number;
  /** A norm after the last layer, before the head. False for OPT-350m. */
  readonly finalNorm: boolean;

  readonly embedding: {
    /** Width of an embedding row; differs from `hiddenSize` only with projections (OPT-350m). */
    readonly size: number;
    /** Embeddings are multiplied by this (Gemma: sqrt(hidden)); 1 for most. */
    readonly scale: number;
    /** A norm after the embeddings, all of them added up (encoders). Default: none. */
    readonly norm?: boolean;
    /** Kinds of token that have an embedding each, added to the token's (BERT's texts of a pair). Default: none. */
    readonly tokenTypes?: number;
    /**
     * Positions, types and norm are of rows of `size`, and the projection comes after them, with a bias (ALBERT,
     * ELECTRA). Default false.
     */
    readonly factorised?: boolean;
  };

  readonly attention: {
    /** Factor on query · key before the softmax. */
    readonly scale: number;
    /** Scores become softCap * tanh(score / softCap) (Gemma 2); absent: they do not. Never beside ALiBi. */
    readonly softCap?: number;
    /** Elements of queries, keys and values are at most this, either way, as they are projected. Default: any. */
    readonly clip?: number;
    /** A factor of attention's outputs, before their projection (Falcon-H1). Default 1. */
    readonly outputScale?: number;
    /**
     * How q and k are normed.
     * - `head` (Qwen3, Gemma 3): an RMS norm over each head before the rotation, of weights that the heads share
     * - `rotated` (Hunyuan): the same after the rotation
     * - `row` (OLMo 2): an RMS norm over all heads together, before the rotation
     * - `layer` (StableLM, Cohere): a layer norm over each head before the rotation, each with its weights, and perhaps
     *   biases (Persimmon)
     * - `unit` (LLaMA 4): an RMS norm without weights over each head after the rotation, of layers that rotate
     */
    readonly qkNorm: 'none' | 'head' | 'rotated' | 'row' | 'layer' | 'unit';
    /**
     * Elements of a head's value, where these are fewer than its key's (MiMo V2): rows of the cache end with zeros.
     * Default: as many.
     */
    readonly valueDim?: number;
    /** Each value head goes through an RMS norm without weights (Gemma 4). Default: not. */
    readonly valueNorm?: boolean;
    /**
     * Latent attention (DeepSeek V2): a token's keys and values are one row, from which those of all heads are made,
     * and its queries may be a product of two. The cache keeps these rows alone. Always computed in the absorbed form,
     * so that the decoder has one key and value head of `rank` + `rotated` elements.
     */
    readonly latent?: LatentSpec;
    /**
     * Queries of layers with `scalesQueries` are multiplied by 1 + factor x log(1 + floor((position + first) /
     * period)), where `first` is 0 or 1 (LLaMA 4, Ministral 3).
     */
    readonly queryScale?: { readonly factor: number; readonly period: number; readonly first: 0 | 1 };
    /**
     * Each head of a layer that has such weights has a score of its own that counts in the softmax's sum and has no
     * value (gpt-oss). Default: none has.
     */
    readonly sinks?: boolean;
    /**
     * False: an encoder, in which every token of a row sees all others, or those within a window either way. It has no
     * head, and its rows are computed whole. Default true.
     */
    readonly causal?: boolean;
    /**
     * Scores get a bias by how far a key is from its query, a number for each bucket of distances and head (MPNet):
     * half of the buckets for keys before the query, ranges of distances that grow up to the largest. Of encoders.
     */
    readonly relativeBias?: { readonly buckets: number; readonly distance: number };
    /** Scores are also of contents and distances (DeBERTa). Of encoders. Default: not. */
    readonly disentangled?: DisentangledSpec;
    /**
     * Layers without a window see the pages of a row's first `sinks` positions, and those of the last `window` that end
     * with a token's own; pages between are let go. Default: they see all.
     */
    readonly eviction?: { readonly sinks: number; readonly window: number };
    /**
     * True where the output of attention is multiplied by what one more projection comes to (Qwen 3.5). Default false.
     */
    readonly gate?: boolean;
    /** With `gate`: that of one number a head, and not of one an element (LFM3). Default false. */
    readonly gatesHeads?: boolean;
    /** With `gate`: what its elements go through; `softplus` of Laguna. Default: `sigmoid`. */
    readonly gateActivation?: 'sigmoid' | 'softplus';
  };

  /**
   * Settings of layers that remember a state of constant size instead of keys and values; absent where there are none.
   */
  readonly recurrent?: {
    /** Tokens that the convolution over each channel sees, the newest included. */
    readonly taps: number;
    /** Sizes of the gated delta rule; absent where no layer has it. */
    readonly delta?: {
      readonly keyHeads: number;
      /** A multiple of `keyHeads`. */
      readonly valueHeads: number;
      readonly keyDim: number;
      readonly valueDim: number;
      /** Value head v reads key head v % keyHeads (llama.cpp), not that of its neighbours. Default false. */
      readonly tiled?: boolean;
      /** Queries, keys and values are products apart (OLMo Hybrid). Default: with `byKey` alone. */
      readonly apart?: boolean;
      /** A factor of the share of a value that is written (OLMo Hybrid: 2). Default 1. */
      readonly betaScale?: number;
      /** The epsilon of the norm of its outputs. Default: that of the other norms. */
      readonly epsilon?: number;
      /**
       * Each element of a key is forgotten at a rate of its own, outputs are gated by the logistic function, and
       * queries, keys and values are products apart (Kimi's delta attention). Default: a head has one rate, and so on.
       */
      readonly byKey?: {
        /** The inner size of the two products that gates and rates are; 0: they are of one. */
        readonly rank: number;
        /** The least that a decay's logarithm can be, which a logistic function shares out; 0: none. */
        readonly least: number;
      };
    };
    /** Sizes of a state space (Mamba-2); absent where no layer has one. */
    readonly stateSpace?: {
      readonly heads: number;
      readonly headDim: number;
      /** Elements of state for each element of a head. */
      readonly stateDim: number;
      /** Heads of a group write and read by the same vectors, and are normed together. A divisor of `heads`. */
      readonly groups: number;
      /** Bounds of a time step. Default: 0, and none. */
      readonly leastTimeStep?: number;
      readonly mostTimeStep?: number;
      /**
       * The way of its outputs: a gate, and a norm after it; a norm, and a gate after it (`first`); the gate alone
       * (`none`). Default: `gated`.
       */
      readonly norm?: 'gated' | 'first' | 'none';
      /** Factors of the parts that it projects, and of what it gives (Falcon-H1). Default: 1 each. */
      readonly scales?: {
        readonly gate: number;
        readonly values: number;
        readonly written: number;
        readonly read: number;
        readonly step: number;
        readonly output: number;
      };
    };
    /** Sizes of a selective scan (Mamba); absent where no layer has one. */
    readonly scan?: {
      readonly channels: number;
      /** Elements of state for each channel. */
      readonly stateDim: number;
      /** Elements that a token's time steps are made of. */
      readonly rank: number;
      /** RMS norms of what steps are made of, and of what states are written and read by. Default: none. */
      readonly norms?: { readonly epsilon: number; readonly weighted: boolean };
    };
    /** Sizes of lightning attention; absent where no layer has it. */
    readonly lightning?: {
      readonly heads: number;
      readonly headDim: number;
      /** The epsilon of the norm of its outputs. */
      readonly epsilon: number;
    };
    /** Sizes of an RG-LRU (Griffin); absent where no layer has one. */
    readonly lru?: {
      /** Blocks of channels, each of which has gates that are made of its own channels. */
      readonly blocks: number;
      readonly blockDim: number;
    };
    /**
     * How a head's rate of decay is stored: as its logarithm (`decay.log`), or negated (`decay.negated`). Default:
     * `log`.
     */
    readonly decay?: 'log' | 'negated';
  };

  readonly position:
    | {
        readonly kind: 'rotary';
        /** Which elements of a head are rotated together: neighbours (2i, 2i+1), or halves (i, i + dims/2). */
        readonly style: 'pairs' | 'halves';
        /** Leading elements of a head that are rotated; even, at most `headDim`. */
        readonly dims: number;
        /** Tables that layers refer to by index. */
        readonly tables: readonly RotaryTable[];
      }
    | { readonly kind: 'none' }
    | { readonly kind: 'learned'; /** Row of the position table for position 0 (OPT: 2). */ readonly offset: number }
    | {
        readonly kind: 'alibi';
        /** One slope a head, already multiplied by whatever the family multiplies it by. */
        readonly slopes: Float32Array;
        /**
         * Falcon rounds slope and slope x position to bfloat16 and adds the bias before scaling: score = (q · k + bias)
         * x scale.
         */
        readonly roundToBfloat16: boolean;
        /** True for an encoder: keys after a query lose as much as those before it. Default false. */
        readonly symmetric?: boolean;
      };

  readonly feedForward: {
    /**
     * `plain`: down(act(up x)); `gated`: down(act(gate x) * up x); `experts`: a router picks some gated blocks for each
     * token.
     */
    readonly kind: 'plain' | 'gated' | 'experts';
    /**
     * `relu-squared` (Nemotron) is relu(x)²; `clamped-swiglu` (gpt-oss), of gated blocks alone: gate is at most 7, up
     * within +-7, and their product is gate * sigmoid(1.702 gate) * (up + 1); `xielu` (Apertus), of plain blocks alone:
     * see `LayerSpec.xielu`.
     */
    readonly activation: 'relu' | 'relu-squared' | 'gelu' | 'gelu-tanh' | 'silu' | 'clamped-swiglu' | 'xielu';
    /** A gate is multiplied by this before its activation (Falcon-H1). Default 1. */
    readonly gateScale?: number;
    /** The inner elements are multiplied by this (Falcon-H1). Default 1. */
    readonly innerScale?: number;
    /** With `experts` only. */
    readonly experts?: ExpertsSpec;
  };

  /**
   * Elements that each layer gets of a token beside the hidden states (Gemma 4): of an embedding of its own, and of a
   * projection of the token's. Default: none.
   */
  readonly layerInputs?: number;
  /** Tokens that have such embeddings: others have the first one's. Default: all. */
  readonly layerInputTokens?: number;

  /**
   * Streams of hidden states beside each other (AltUp; Gemma 3n): layers compute with the first one, predict all of
   * them before it and correct them after it; beside attention stands a product of two, of `bypassRank` (LAuReL).
   * Default: one stream, and nothing beside attention.
   */
  readonly streams?: { readonly count: number; readonly bypassRank: number };

  /**
   * True where the hidden states that a layer has made are multiplied by a number of its own (Gemma 4). Default false.
   */
  readonly layerScale?: boolean;

  /** Logits are multiplied by this, before they are capped. Default 1. */
  readonly logitScale?: number;

  /** Logits become logitSoftCap * tanh(logit / logitSoftCap) (Gemma 2); absent: they do not. */
  readonly logitSoftCap?: number;

  /**
   * The layers that a row's pooled hidden states go through, in order: those of a classifier, or those that
   * sentence-transformers puts after the pooling. Computed in float32. Default: none.
   */
  readonly pooled?: readonly PooledLayer[];

  /** Settings that differ from layer to layer; one entry a layer. */
  readonly layerSpecs: readonly LayerSpec[];
}

/**
 * Disentangled attention: how far a key is from its query has an embedding, which queries and keys are made of; a score
 * is what contents make of each other, and of these.
 */
export interface DisentangledSpec {
  /** Half of the embedding's rows. */
  readonly span: number;
  /**
   * Distances up to half of the span have a row each, those up to this one share the other half, by their logarithm.
   * Default: all have one each.
   */
  readonly distance?: number;
  /** A query's content meets keys of distances; a key's content meets queries of distances. */
  readonly contentToPosition: boolean;
  readonly positionToContent: boolean;
  /** Queries and keys of distances are products of their own. Default: those of contents. */
  readonly ownProducts?: boolean;
}

/** Sizes of latent attention. */
export interface LatentSpec {
  /** Elements of a row that keys and values are made of; a multiple of 16. */
  readonly rank: number;
  /** Elements of what queries are made of; 0: they are one product of the hidden states. */
  readonly queryRank: number;
  /** Elements of a head's query and key that are rotated, of which all heads' keys have the same. */
  readonly rotated: number;
  /** The elements that are not rotated. */
  readonly plain: number;
  /** Elements of a head's value; a multiple of 16. */
  readonly value: number;
  /** The epsilon of the norms of rows. */
  readonly epsilon: number;
  /** Rows that keys and values are made of are multiplied by this after their norm (LongCat-Flash). Default 1. */
  readonly scale?: number;
}

/** A product, with a bias where there is one, or a layer norm. */
export type PooledLayer =
  | {
      readonly kind: 'dense';
      readonly outputs: number;
      readonly activation: 'none' | 'tanh' | 'relu' | 'gelu' | 'gelu-tanh' | 'silu';
    }
  | { readonly kind: 'norm'; readonly outputs: number; readonly epsilon: number };

/** Tells whether this is an encoder. */
export function isEncoder({ attention }: DecoderSpec): boolean {
  return attention.causal === false;
}

/** Tells whether some parts of the decoder are computed by the processor alone. */
export function needsProcessor({
  attention,
  norm,
  recurrent,
  feedForward,
  embedding,
  layerInputs = 0,
  layerScale = false,
  streams,
  layerSpecs,
}: DecoderSpec): boolean {
  const { router, shared } = feedForward.experts ?? {};
  return [
    recurrent !== undefined,
    streams !== undefined,
    (attention.outputScale ?? 1) !== 1 || (feedForward.gateScale ?? 1) !== 1 || (feedForward.innerScale ?? 1) !== 1,
    attention.gate,
    attention.latent !== undefined,
    attention.valueNorm,
    attention.valueDim !== undefined,
    attention.queryScale !== undefined,
    attention.qkNorm === 'unit',
    attention.disentangled !== undefined,
    embedding.factorised,
    layerInputs > 0,
    layerScale,
    router?.weighsInputs,
    router?.expertScale,
    router?.choosesByLogits,
    (shared?.scale ?? 1) !== 1,
    router?.score === 'sparse-mixer',
    feedForward.experts?.gateless,
    feedForward.experts?.aside,
    feedForward.experts?.identities !== undefined,
    feedForward.activation === 'xielu',
    norm.unweighted,
    attention.clip !== undefined,
    shared?.apart,
    layerSpecs.some(hasOwnHeads),
    layerSpecs.some(
      ({ chunked, innerSize, mixerOnly, gateDeviations, sums }) =>
        chunked === true || mixerOnly === true || [innerSize, gateDeviations, sums].some((own) => own !== undefined),
    ),
  ].includes(true);
}

/** Tells whether a layer's heads, keys or values are others than the decoder says. */
export function hasOwnHeads({ headDim, kvHeads, heads, keysOf, valuesAreKeys = false }: LayerSpec): boolean {
  return [headDim, kvHeads, heads, keysOf].some((own) => own !== undefined) || valuesAreKeys;
}

/** Hidden states of a token between layers: streams, or one and what experts gave. */
export function streamsOf({ streams, feedForward }: Pick<DecoderSpec, 'streams' | 'feedForward'>): number {
  return streams?.count ?? (feedForward.experts?.aside === true ? 2 : 1);
}

/** The size of a token's hidden state between layers, of all streams. */
export function hiddenBytes(decoder: Pick<DecoderSpec, 'hiddenSize' | 'streams' | 'feedForward'>): number {
  return streamsOf(decoder) * decoder.hiddenSize * 4;
}

/** Numbers that a row's pooled hidden states come to. */
export function pooledWidth({ pooled = [], hiddenSize }: DecoderSpec): number {
  return pooled.at(-1)?.outputs ?? hiddenSize;
}

/**
 * The operation that mixes the tokens of a layer. `attention`; `delta-rule` (Qwen 3.5): queries, keys and values
 * through a short convolution, then a state by the gated delta rule, normed and gated; `short-convolution` (LFM2): C *
 * convolution(B * x); `state-space` (Mamba-2; Granite 4, Bamba): inputs, and what a state is written and read by,
 * through a short convolution, then a state by its time step, gated and normed; `selective-scan` (Mamba): channels
 * through a short convolution, then a state of each by time steps of its own, gated; `lightning-attention`
 * (MiniMax-Text-01): a state to which each token's value is added by its key, and which each head forgets at a rate of
 * its own, normed and gated; `rg-lru` (Griffin): channels through a short convolution, then a number of each that is
 * forgotten and added to by gates of them, gated
 */
export type Mixer =
  | 'attention'
  | 'delta-rule'
  | 'short-convolution'
  | 'state-space'
  | 'selective-scan'
  | 'lightning-attention'
  | 'rg-lru';

/** The weights of what was there and of a branch, where the branch is added. */
export interface BranchSum {
  readonly kept: number;
  readonly added: number;
}

export interface LayerSpec {
  /** Default: `attention`. */
  readonly mixer?: Mixer;
  /**
   * Sliding window: query i sees keys i - window + 1 to i; of an encoder to i + window - 1. 0 means all of them.
   */
  readonly window: number;
  /** Query i sees keys from the last multiple of `window` on (LLaMA 4). Default false. */
  readonly chunked?: boolean;
  /** Elements of a head, at most the decoder's. Default: the decoder's. */
  readonly headDim?: number;
  /** Default: the decoder's. */
  readonly kvHeads?: number;
  /** Query heads, at most the decoder's. Default: the decoder's. */
  readonly heads?: number;
  /** The layer before it whose keys and values it reads, having none of its own. Default: it has. */
  readonly keysOf?: number;
  /** Its values are its keys as they are before norm and rotation. Default false. */
  readonly valuesAreKeys?: boolean;
  /** See `attention.queryScale`. Default false. */
  readonly scalesQueries?: boolean;
  /** Inner width of its feed-forward block. Default: the decoder's. */
  readonly innerSize?: number;
  /** Index into the rotary tables; `none`: q and k are not rotated. 0 where there is no rotary encoding. */
  readonly rotaryTable: number | 'none';
  /** Among layers of experts: this one has a gated block of `denseSize` instead. Default false. */
  readonly dense?: boolean;
  /**
   * With residual `post`: the hidden states become kept x what they were + added x a branch, before their norm.
   * Default: 1 each.
   */
  readonly sums?: { readonly mixer: BranchSum; readonly block: BranchSum };
  /** The shares of heads' states that a token leaves in lightning attention: numbers from 0 to 1. */
  readonly decays?: Float32Array;
  /** Its norms are those of residual `branch`, where the other layers' is `pre` (OLMo Hybrid). Default false. */
  readonly branched?: boolean;
  /** It has no feed-forward block (Nemotron-H). Default false. */
  readonly mixerOnly?: boolean;
  /** Its attention has a state space beside it, which reads the same; both are added (Falcon-H1). Default false. */
  readonly stateBeside?: boolean;
  /**
   * Its gate's elements become what they are above their mean by so many standard deviations, or 0, before the
   * activation (Gemma 3n). Default: they stay.
   */
  readonly gateDeviations?: number;
  /**
   * The numbers of its activation `xielu`: positive x² + beta x above 0, else negative (exp(min(x, epsilon)) - 1 - x) +
   * beta x.
   */
  readonly xielu?: {
    readonly positive: number;
    readonly negative: number;
    readonly beta: number;
    readonly epsilon: number;
  };
}

/** The experts of a mixture: gated blocks, of which a router picks some for each token. */
export interface ExpertsSpec {
  readonly count: number;
  /** How many of them a token uses. */
  readonly perToken: number;
  /** They and the block beside them have no gate: down(act(up x)) (Nemotron-H). Default false. */
  readonly gateless?: boolean;
  /** More experts, after the others, that give what they get (LongCat-Flash). Default 0. */
  readonly identities?: number;
  /**
   * Every second layer has experts, beside a block that all tokens go through; what they give is added at the end of
   * the next layer, which has none (LongCat-Flash). Default: at the end of their own.
   */
  readonly aside?: boolean;
  /** Default: a softmax over all logits, the best few of it, divided by their sum. */
  readonly router?: RouterSpec;
  /**
   * A gated block that all tokens go through beside their experts, in the layer's own `gate`, `up` and `down`. `gate`:
   * it is weighed by the logistic function of what a matrix of one output makes of the block's input.
   */
  readonly shared?: {
    readonly size: number;
    readonly gate: boolean;
    /** Its inner elements are multiplied by this (Cohere's mixtures). Default 1. */
    readonly scale?: number;
    /**
     * The mixture stands beside the block (Gemma 4): its router and its experts read the hidden states through norms of
     * their own, and both results are normed before they are added. Default false.
     */
    readonly apart?: boolean;
  };
  /** Inner width of layers that are `dense`. */
  readonly denseSize?: number;
}

/** How the experts of a token are chosen and weighed. */
export interface RouterSpec {
  /**
   * Scores are the softmax of a token's logits, or the logistic function of each; `sparse-mixer` (Phi-3.5-MoE): of each
   * chosen expert, the softmax over it and those of the others that are near it, by `jitter`.
   */
  readonly score: 'softmax' | 'sigmoid' | 'sparse-mixer';
  /** Twice this share of an expert's logit is how far one that is near it may be below. */
  readonly jitter?: number;
  /** The chosen experts' scores are divided by their sum. */
  readonly normalised: boolean;
  /** Added to that sum. Default 0. */
  readonly epsilon?: number;
  /** They are multiplied by this, last. */
  readonly scale: number;
  /** A vector is added to scores where experts are chosen by them, and not where they are weighed. */
  readonly choiceBias: boolean;
  /** Experts are chosen by their logits, and not by their scores (Kolibri). Default false. */
  readonly choosesByLogits?: boolean;
  /** Logits are multiplied by this, first. Default 1. */
  readonly logitScale?: number;
  /** Experts' inputs are multiplied by their weights, and not what they give (LLaMA 4). Default false. */
  readonly weighsInputs?: boolean;
  /** Weights are multiplied by a number of each expert, last (Gemma 4). Default false. */
  readonly expertScale?: boolean;
  /**
   * Experts are of groups, one after another, and a token takes those of its best groups only: by the best score in
   * one, or by the sum of the two best.
   */
  readonly groups?: { readonly count: number; readonly perToken: number; readonly score: 'best' | 'best-two' };
}

export interface RotaryTable {
  /** dims/2 angular frequencies: the angle of pair i at position p is p * frequencies[i], in float32. */
  readonly frequencies: Float32Array;
  /** Factor on cos and sin (YaRN, LongRoPE: attention factor); 1 for most. */
  readonly scale: number;
}
