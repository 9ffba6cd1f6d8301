import type { DecoderSpec } from '../../DecoderSpec.js';
import { biased, encoder, encoderSizes, layerNorm, sequenceClassifier, withHead } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { ggufEncoder, ggufEncoderGlobals, ggufEncoderLayers } from '../ggufEncoder.js';
import { ggufClassifier } from '../ggufHead.js';
import { alibiSlopes } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { fusedGateUp, GGUF_LAYER } from '../weights.js';
import { BERT_DEFAULTS, bertEmbeddings } from './bert.js';

const LAYER = '{base}encoder.layer.{layer}.';
/** Names of the model's own code for what its gated blocks do. */
const GATED = { geglu: 'gelu', reglu: 'relu' } as const;

/**
 * Jina's BERT: no positions but a loss of scores that grows with the distance (ALiBi, either way), and gated
 * feed-forward blocks. Its config.json calls it `bert`.
 */
export const jinaBert: Family = {
  modelTypes: [],
  fromConfig(config: Fields, tensors?: TensorIndex): Description {
    const other = tensors?.names().find((name) => name.includes('.self.layer_norm_q.'));
    if (other !== undefined)
      config.refuse(
        'architectures',
        'Jina BERT as its texts have it: norms of queries and keys are not computed',
        other,
      );
    const sizes = encoderSizes(config, BERT_DEFAULTS);
    const kind = config.string('feed_forward_type', 'geglu');
    const activation =
      kind === 'geglu' || kind === 'reglu' ? GATED[kind] : config.refuse('feed_forward_type', 'geglu or reglu');
    const decoder = encoder({
      family: 'jina_bert',
      ...sizes,
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 8192),
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-12),
      tokenTypes: config.integer('type_vocab_size', { min: 1, max: 1024 }, 2),
      position: alibi(sizes.heads),
      feedForward: { kind: 'gated', activation },
    });
    return withHead(
      {
        decoder,
        bases: ['bert.', ''],
        weights: [
          ...bertEmbeddings({ types: true }),
          ...biased(LAYER, {
            q: 'attention.self.query',
            k: 'attention.self.key',
            v: 'attention.self.value',
            o: 'attention.output.dense',
            down: 'mlp.wo',
          }),
          ...fusedGateUp(`${LAYER}mlp.gated_layers.weight`, sizes.feedForwardSize),
          ...layerNorm('norm1', `${LAYER}attention.output.LayerNorm`),
          ...layerNorm('norm2', `${LAYER}mlp.layernorm`),
        ],
      },
      sequenceClassifier(
        config,
        sizes.hiddenSize,
        [{ kind: 'dense', activation: 'tanh', tensor: '{base}pooler.dense' }],
        'classifier',
      ),
    );
  },
  gguf: {
    architecture: 'jina-bert-v2',
    describe(model): Description {
      const plain = ggufEncoder('jina_bert', model, { kind: 'learned', offset: 0 });
      const fused = !model.tensors.has('blk.0.ffn_gate.weight');
      const layers = ggufEncoderLayers(model, !fused);
      return withHead(
        {
          decoder: { ...plain, position: alibi(plain.heads), feedForward: { kind: 'gated', activation: 'gelu' } },
          weights: [
            ...ggufEncoderGlobals(),
            ...layers.filter(({ role }) => !fused || role !== 'up.weight'),
            ...(fused ? fusedGateUp(`${GGUF_LAYER}ffn_up.weight`, plain.feedForwardSize) : []),
          ],
        },
        ggufClassifier(model, plain.hiddenSize),
      );
    },
  },
};

function alibi(heads: number): DecoderSpec['position'] {
  return { kind: 'alibi', slopes: alibiSlopes(heads), roundToBfloat16: false, symmetric: true };
}
