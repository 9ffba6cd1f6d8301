import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { readGgufSizes, readSizes, unpositionedDecoder, type GatedDefaults } from '../gatedDecoder.js';
import { ggufMixture, sigmoidRouter, withExperts } from '../mixture.js';
import { activation } from '../specs.js';
import { ggufStateSpaceWeights, readGgufStateSpace, readStateSpace, stateSpaceWeights } from '../stateSpace.js';
import { GGUF_LAYER, ggufAttention, ggufGlobals, head, stackedExperts, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 131072,
  hidden: 4096,
  feedForward: 21504,
  layers: 4,
  heads: 32,
  kvHeads: 8,
  headDim: 128,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
const LAYER = '{base}layers.{layer}.';

/** The kind of one of its files' layers, each of which is a mixer or a feed-forward block. */
type Kind = 'attention' | 'state-space' | 'block' | 'experts';
const WORDS: Readonly<Record<string, Kind | undefined>> = {
  '*': 'attention',
  full_attention: 'attention',
  attention: 'attention',
  M: 'state-space',
  linear_attention: 'state-space',
  mamba: 'state-space',
  '-': 'block',
  mlp: 'block',
  E: 'experts',
  moe: 'experts',
};

/** Layers here: a mixer with the block after it, where one is after it. */
interface Paired {
  readonly layerSpecs: readonly LayerSpec[];
  readonly layerNumbers: readonly number[];
  readonly blockNumbers: readonly number[];
}

/** Nemotron-H and Nemotron 3 Nano: layers of Mamba-2, of attention without positions, and of blocks without gates. */
export const nemotronH: Family = {
  modelTypes: ['nemotron_h'],
  fromConfig(config: Fields): Description {
    const kinds = kindsOf(config);
    const { layerSpecs, ...numbers } = paired(kinds, (index) =>
      config.refuse(`layers_block_type[${index}]`, 'a block after a mixer', 'a block of its own'),
    );
    const sizes = {
      ...readSizes(config.with({ num_hidden_layers: kinds.length }), DEFAULTS),
      layers: layerSpecs.length,
    };
    if ((config.raw('moe_latent_size') ?? null) !== null)
      config.refuse('moe_latent_size', 'null: experts of a latent row are not computed');
    const plain = nemotronDecoder(
      sizes,
      layerSpecs,
      config.number('layer_norm_epsilon', LIMITS.epsilon, DEFAULTS.epsilon),
      activation(config, 'mlp_hidden_act', 'relu2'),
    );
    const states = layerSpecs.some(({ mixer }) => mixer === 'state-space')
      ? { ...plain, recurrent: readStateSpace(mambaFields(config), sizes.hiddenSize, 'own') }
      : plain;
    const decoder = kinds.includes('experts') ? withNemotronExperts(states, config) : states;
    return {
      decoder,
      ...numbers,
      bases: ['model.', 'backbone.', ''],
      weights: [
        ...weights('{base}', { token_embedding: 'embeddings.weight', 'final_norm.weight': 'norm_f.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...weights(LAYER, { 'norm1.weight': 'norm.weight', 'norm2.weight': 'norm.weight' }),
        ...attentionWeights(config),
        ...stateSpaceWeights(decoder, mambaFields(config), 'mixer.'),
        ...blockWeights(decoder, config),
      ],
    };
  },
  gguf: { architecture: 'nemotron_h', describe: describeGguf },
};

/** The same of GGUF files with experts, whose architecture has a name of its own. */
export const nemotronHMoe: Family = {
  modelTypes: [],
  fromConfig: nemotronH.fromConfig,
  gguf: { architecture: 'nemotron_h_moe', describe: describeGguf },
};

function kindsOf(config: Fields): Kind[] {
  const pattern = config.raw('hybrid_override_pattern');
  const listed = config.raw('layers_block_type') ?? config.raw('layer_types');
  const words: unknown = listed ?? (typeof pattern === 'string' ? Array.from(pattern) : undefined);
  if (!Array.isArray(words) || words.length === 0 || words.length > LIMITS.layers.max)
    return config.refuse('layers_block_type', 'a list of the kind of each layer');
  return words.map(
    (word: unknown, index) =>
      (typeof word === 'string' && Object.hasOwn(WORDS, word) ? WORDS[word] : undefined) ??
      config.refuse(`layers_block_type[${index}]`, 'full_attention, linear_attention, mlp or moe', word),
  );
}

function paired(kinds: readonly Kind[], refuse: (index: number) => never): Paired {
  const layerNumbers = kinds.flatMap((kind, index) => (isMixer(kind) ? [index] : []));
  const alone = kinds.findIndex((kind, index) => !isMixer(kind) && !isMixer(kinds[index - 1]));
  if (alone >= 0) refuse(alone);
  const layerSpecs = layerNumbers.map((number): LayerSpec => {
    const block = kinds[number + 1];
    return {
      window: 0,
      rotaryTable: 0,
      ...(kinds[number] === 'state-space' && { mixer: 'state-space' }),
      ...(block === undefined || isMixer(block)
        ? { mixerOnly: true }
        : block === 'block' && kinds.includes('experts')
          ? { dense: true }
          : {}),
    };
  });
  return { layerSpecs, layerNumbers, blockNumbers: layerNumbers.map((number) => number + 1) };
}

const isMixer = (kind: Kind | undefined): boolean => kind === 'attention' || kind === 'state-space';

function nemotronDecoder(
  sizes: ReturnType<typeof readSizes>,
  layerSpecs: readonly LayerSpec[],
  epsilon: number,
  activation: DecoderSpec['feedForward']['activation'],
): DecoderSpec {
  const feedForward = { kind: 'plain', activation } as const;
  return { ...unpositionedDecoder('nemotron_h', sizes, epsilon), feedForward, layerSpecs };
}

/** Mamba-2's settings as other hybrids call them. */
function mambaFields(config: Fields): Fields {
  const defaults = {
    mamba_num_heads: 128,
    mamba_head_dim: 64,
    ssm_state_size: 128,
    conv_kernel: 4,
    n_groups: 8,
    use_conv_bias: true,
    use_bias: false,
  };
  return config.withDefaults(defaults).renamed({
    mamba_n_heads: 'mamba_num_heads',
    mamba_d_head: 'mamba_head_dim',
    mamba_d_state: 'ssm_state_size',
    mamba_d_conv: 'conv_kernel',
    mamba_n_groups: 'n_groups',
    mamba_conv_bias: 'use_conv_bias',
    mamba_proj_bias: 'use_bias',
    hidden_act: 'mamba_hidden_act',
    // Not `time_step_min`, which transformers takes for a bound when it computes in chunks: only training starts there.
    ...(config.has('mamba_dt_limit') && { time_step_limit: 'mamba_dt_limit' }),
  });
}

/** Experts, blocks among them and beside them, all without gates. */
function withNemotronExperts(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const mixed = withExperts(decoder, {
    count: config.integer('n_routed_experts', LIMITS.experts, 8),
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
    width: config.integer('moe_intermediate_size', LIMITS.feedForward, 7688),
    router: { ...sigmoidRouter(config), epsilon: 1e-20 },
    shared: {
      size: config.integer('moe_shared_expert_intermediate_size', LIMITS.feedForward, 7688),
      gate: false,
    },
    dense: (layer) => decoder.layerSpecs[layer]?.dense === true,
  });
  return gateless(mixed);
}

function gateless(decoder: DecoderSpec): DecoderSpec {
  const { experts } = decoder.feedForward;
  return experts === undefined
    ? decoder
    : { ...decoder, feedForward: { ...decoder.feedForward, experts: { ...experts, gateless: true } } };
}

function attentionWeights(config: Fields): WeightSource[] {
  const roles = ['q', 'k', 'v', 'o'] as const;
  const named = (part: 'weight' | 'bias'): Readonly<Record<string, string>> =>
    Object.fromEntries(roles.map((role) => [`${role}.${part}`, `${role}_proj.${part}`]));
  return [
    ...weights(`${LAYER}mixer.`, named('weight')),
    // transformers has none, whatever the configuration says.
    ...(config.boolean('attention_bias', false) ? weights(`${LAYER}mixer.`, named('bias'), { optional: true }) : []),
  ];
}

/** Blocks with experts, and those without. */
function blockWeights(decoder: DecoderSpec, config: Fields): WeightSource[] {
  const { experts } = decoder.feedForward;
  const biased = config.boolean('mlp_bias', false);
  const block = (part: string): WeightSource[] =>
    (['up', 'down'] as const).flatMap((role) =>
      weights(`${LAYER}mixer.${part}`, {
        [`${role}.weight`]: `${role}_proj.weight`,
        ...(biased && { [`${role}.bias`]: `${role}_proj.bias` }),
      }),
    );
  if (experts === undefined) return block('');
  const own = Array.from({ length: experts.count }, (_, expert) =>
    (['up', 'down'] as const).map((role): WeightSource => ({
      role: `expert.${expert}.${role}.weight`,
      tensor: `${LAYER}mixer.experts.${expert}.${role}_proj.weight`,
    })),
  ).flat();
  return [
    ...bySparsity(
      decoder,
      [
        ...weights(`${LAYER}mixer.gate.`, {
          'router.weight': 'weight',
          'router.choice_bias': 'e_score_correction_bias',
        }),
        ...own,
        ...block('shared_experts.'),
      ],
      false,
    ),
    ...bySparsity(decoder, block(''), true),
  ];
}

const bySparsity = (decoder: DecoderSpec, sources: readonly WeightSource[], dense: boolean): WeightSource[] =>
  sources.map((source) => ({
    ...source,
    layers: (layer) => (decoder.layerSpecs[layer]?.dense === true) === dense,
  }));

function describeGguf(whole: GgufModel): Description {
  const { fields, tensors } = whole;
  const count = fields.integer('block_count', LIMITS.layers);
  const kinds = Array.from({ length: count }, (_, layer): Kind => {
    if (tensors.has(`blk.${layer}.ssm_in.weight`)) return 'state-space';
    if (tensors.has(`blk.${layer}.attn_q.weight`)) return 'attention';
    return tensors.has(`blk.${layer}.ffn_gate_inp.weight`) ? 'experts' : 'block';
  });
  const { layerSpecs, ...numbers } = paired(kinds, (index) =>
    fields.refuse('block_count', `a block after a mixer, which layer ${index} is not`),
  );
  // Each layer has a number of its own, or 0.
  const largest = (key: string): number | undefined => {
    const value = fields.raw(key);
    if (!Array.isArray(value) && !ArrayBuffer.isView(value)) return typeof value === 'number' ? value : undefined;
    return Array.from(value as ArrayLike<unknown>).reduce<number>((most, each) => Math.max(most, Number(each) || 0), 0);
  };
  const single = ['attention.head_count', 'attention.head_count_kv', 'feed_forward_length'] as const;
  const model: GgufModel = {
    ...whole,
    fields: fields.with(Object.fromEntries(single.map((key) => [key, largest(key) || undefined]))),
  };
  const sizes = { ...readGgufSizes(model), layers: layerSpecs.length };
  const epsilon = fields.has('attention.layer_norm_rms_epsilon')
    ? fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon)
    : fields.number('attention.layer_norm_epsilon', LIMITS.epsilon);
  const plain = nemotronDecoder(sizes, layerSpecs, epsilon, 'relu-squared');
  const states = kinds.includes('state-space') ? { ...plain, recurrent: readGgufStateSpace(model) } : plain;
  const first = kinds.indexOf('experts');
  const decoder = first < 0 ? states : withGgufExperts(states, model, first);
  const experts = decoder.feedForward.experts;
  const block = weights(GGUF_LAYER, { 'up.weight': 'ffn_up.weight', 'down.weight': 'ffn_down.weight' });
  return {
    decoder,
    ...numbers,
    weights: [
      ...ggufGlobals(),
      ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'attn_norm.weight' }),
      ...ggufAttention(),
      ...ggufStateSpaceWeights(decoder),
      ...(experts === undefined
        ? block
        : [
            ...bySparsity(
              decoder,
              [
                ...weights(GGUF_LAYER, {
                  'router.weight': 'ffn_gate_inp.weight',
                  'router.choice_bias': 'exp_probs_b.bias',
                }),
                ...stackedExperts(experts.count, 'weight', (role) => ({
                  tensor: `${GGUF_LAYER}ffn_${role}_exps.weight`,
                })).filter(({ role }) => !role.includes('.gate.')),
                ...weights(GGUF_LAYER, { 'up.weight': 'ffn_up_shexp.weight', 'down.weight': 'ffn_down_shexp.weight' }),
              ],
              false,
            ),
            ...bySparsity(decoder, block, true),
          ]),
    ],
  };
}

/** The mixture of a file whose first layer with experts is this one. */
function withGgufExperts(decoder: DecoderSpec, model: GgufModel, first: number): DecoderSpec {
  const { fields, tensors } = model;
  if (tensors.has(`blk.${first}.ffn_latent_down.weight`))
    fields.refuse('moe_latent_size', 'none: experts of a latent row are not computed', 'latent projections');
  const mixed = ggufMixture(decoder, model, { score: 'sigmoid', normalised: true });
  const { experts } = mixed.feedForward;
  if (experts === undefined) return mixed;
  const size = tensors.find(`blk.${first}.ffn_up_shexp.weight`)?.shape[0] ?? 0;
  const router = { ...(experts.router ?? sigmoidRouter(fields)), choiceBias: true, epsilon: 1e-20 };
  const shared = { size, gate: false };
  return gateless({
    ...mixed,
    layerSpecs: decoder.layerSpecs,
    feedForward: { ...mixed.feedForward, experts: { ...experts, router, shared, denseSize: decoder.feedForwardSize } },
  });
}
