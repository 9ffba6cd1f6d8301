import type { DecoderSpec } from '../DecoderSpec.js';
import type { GlobalRole, LayerRole } from './weightRoles.js';
import type { Family, GgufModel, WeightSource } from './Family.js';
import type { Fields } from './Fields.js';
import type { TensorIndex } from './TensorIndex.js';
import {
  gatedConfig,
  gatedGguf,
  LLAMA_BASES,
  LLAMA_LAYER,
  type GatedDefaults,
  type GatedStyle,
  PRE_NORMS,
} from './gatedDecoder.js';
import { GGUF_LAYER, ggufAttention, ggufGated, ggufGlobals, head, type Names, weights } from './weights.js';

/** Names of tensors that differ from LLaMA's, or are more; undefined where the family has no such weight. */
export type Renamed = Readonly<Partial<Record<GlobalRole | LayerRole, string | undefined>>>;

/** How a family differs from LLaMA: facts, and nothing computed. */
export interface GatedFacts {
  /** `model_type`, and what the decoder is called. */
  readonly family: string;
  readonly modelTypes?: readonly string[];
  readonly defaults: GatedDefaults;
  readonly style?: GatedStyle;
  /** Default of `tie_word_embeddings`. Default: false. */
  readonly tied?: boolean;
  /** The head is named by `weights`. Default: it is `lm_head`. */
  readonly head?: false;
  /** The configuration with what its class has where it says nothing. Default: as it is. */
  readonly prepare?: (config: Fields) => Fields;
  /** The decoder, LLaMA's as the configuration has it. */
  readonly decoder?: (decoder: DecoderSpec, config: Fields, tensors: TensorIndex | undefined) => DecoderSpec;
  /** Layers' names without prefix; `gate`, `up` and `down` are left out with experts. */
  readonly names?: (config: Fields, decoder: DecoderSpec) => Renamed;
  readonly weights?: (decoder: DecoderSpec, config: Fields) => readonly WeightSource[];
  readonly gguf?: {
    readonly architecture: string;
    /** Which elements rotate together in its rows. */
    readonly rotary: 'pairs' | 'halves';
    readonly norm?: 'rms' | 'layer';
    /** The metadata as LLaMA's are read. Default: as they are. */
    readonly prepare?: (model: GgufModel) => GgufModel;
    readonly decoder?: (decoder: DecoderSpec, model: GgufModel) => DecoderSpec;
    readonly names?: (model: GgufModel, decoder: DecoderSpec) => Renamed;
    readonly weights?: (decoder: DecoderSpec, model: GgufModel) => readonly WeightSource[];
  };
}

const GLOBALS: Names<GlobalRole> = { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' };
const ATTENTION: Names<LayerRole> = {
  ...PRE_NORMS,
  'q.weight': 'self_attn.q_proj.weight',
  'k.weight': 'self_attn.k_proj.weight',
  'v.weight': 'self_attn.v_proj.weight',
  'o.weight': 'self_attn.o_proj.weight',
};
const BLOCK: Names<LayerRole> = {
  'gate.weight': 'mlp.gate_proj.weight',
  'up.weight': 'mlp.up_proj.weight',
  'down.weight': 'mlp.down_proj.weight',
};
const GGUF_NORMS: Names<LayerRole> = { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'ffn_norm.weight' };

/** A family whose layers are LLaMA's but for some facts. */
export function gatedFamily(facts: GatedFacts): Family {
  const { family, gguf } = facts;
  return {
    modelTypes: facts.modelTypes ?? [family],
    fromConfig(given, tensors) {
      const config = facts.prepare?.(given) ?? given;
      const plain = gatedConfig(family, config, facts.defaults, facts.style);
      const decoder = facts.decoder?.(plain, config, tensors) ?? plain;
      const renamed = facts.names?.(config, decoder) ?? {};
      const [globals, layers] = parted(renamed);
      return {
        decoder,
        bases: LLAMA_BASES,
        weights: [
          ...weights('{base}', named({ ...GLOBALS, ...globals })),
          ...(facts.head === false
            ? []
            : [head('lm_head.weight', config.boolean('tie_word_embeddings', facts.tied ?? false))]),
          ...weights(LLAMA_LAYER, named({ ...ATTENTION, ...(hasBlock(decoder) && BLOCK), ...layers })),
          ...(facts.weights?.(decoder, config) ?? []),
        ],
      };
    },
    ...(gguf && {
      gguf: {
        architecture: gguf.architecture,
        describe(model) {
          const plain = gatedGguf(family, gguf.prepare?.(model) ?? model, gguf.rotary, { norm: gguf.norm ?? 'rms' });
          const decoder = gguf.decoder?.(plain, model) ?? plain;
          const [globals, layers] = parted(gguf.names?.(model, decoder) ?? {});
          const usual = [...ggufAttention(), ...(hasBlock(decoder) ? ggufGated() : [])];
          return {
            decoder,
            weights: [
              ...ggufGlobals().filter(({ role }) => !Object.hasOwn(globals, role)),
              ...weights('', named(globals)),
              ...usual.filter(({ role }) => !Object.hasOwn(layers, role)),
              ...weights(GGUF_LAYER, named({ ...GGUF_NORMS, ...layers })),
              ...(gguf.weights?.(decoder, model) ?? []),
            ],
          };
        },
      },
    }),
  };
}

/** The names of biases of the attention's products. */
export function biases(wanted: boolean, ...roles: readonly ('q' | 'k' | 'v' | 'o')[]): Renamed {
  return Object.fromEntries(wanted ? roles.map((role) => [`${role}.bias`, `self_attn.${role}_proj.bias`]) : []);
}

/** The names of biases of a feed-forward block's products. */
export function blockBiases(wanted: boolean, ...roles: readonly ('gate' | 'up' | 'down')[]): Renamed {
  return Object.fromEntries(wanted ? roles.map((role) => [`${role}.bias`, `mlp.${role}_proj.bias`]) : []);
}

const hasBlock = (decoder: DecoderSpec): boolean => decoder.feedForward.kind !== 'experts';

const GLOBAL_ROLES: ReadonlySet<string> = new Set<GlobalRole>([
  'token_embedding',
  'position_embedding',
  'embedding_projection',
  'output_projection',
  'final_norm.weight',
  'final_norm.bias',
  'head.weight',
  'head.bias',
]);

function parted(renamed: Renamed): [globals: Renamed, layers: Renamed] {
  const entries = Object.entries(renamed);
  const of = (global: boolean): Renamed =>
    Object.fromEntries(entries.filter(([role]) => GLOBAL_ROLES.has(role) === global));
  return [of(true), of(false)];
}

function named(names: Renamed): Names<GlobalRole | LayerRole> {
  return Object.fromEntries(Object.entries(names).filter(([, name]) => name !== undefined));
}
