import { ModelFileError } from '../../errors/ModelFileError.js';
import type { PooledLayer } from '../DecoderSpec.js';
import type { SequenceClassifier } from '../ModelSource.js';
import { type ClassifierHead, LABELS, unnamedLabels } from './encoder.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS } from './Fields.js';

/** Where families differ in their heads. */
export interface GgufHeadOptions {
  /** After the layer before the last one. Default: tanh. */
  readonly activation?: 'tanh' | 'gelu' | 'relu';
  /** Which hidden states it takes, where the file does not say. Default: the first. */
  readonly pooling?: SequenceClassifier['pooling'];
  /** There is always a layer before the last one: a file without it has lost it. Default: false. */
  readonly twoLayers?: boolean;
}

/** By llama.cpp's numbers, as `classifier.pooling_type` has them. */
const POOLINGS = new Map<unknown, SequenceClassifier['pooling']>([
  [1, 'mean'],
  [2, 'cls'],
  [3, 'last'],
]);

/**
 * The classifier of a model in GGUF, as llama.cpp lays it out: `cls.output`, and before it `cls` and `cls.norm`
 * where the file has them; or `cls` alone (Jina's), which scores then. Undefined of a file without one.
 */
export function ggufClassifier(
  { fields, tensors }: GgufModel,
  hiddenSize: number,
  { activation = 'tanh', pooling = 'cls', twoLayers = false }: GgufHeadOptions = {},
): ClassifierHead | undefined {
  const last = ['cls.output', 'cls'].find((name) => tensors.has(`${name}.weight`));
  if (last === undefined) return undefined;
  if (twoLayers && (last === 'cls' || !tensors.has('cls.weight')))
    throw new ModelFileError(
      tensors.path,
      'the head that classifies',
      `${last}.weight alone`,
      'cls.weight and cls.output.weight: the pooler between is lost, as llama.cpp converts BertForSequenceClassification, and its scores with it (open the safetensors)',
    );
  const outputs = tensors.find(`${last}.weight`)?.shape[0] ?? 0;
  const layers: { readonly layer: PooledLayer; readonly tensor: string }[] = [];
  if (last === 'cls.output' && tensors.has('cls.weight')) {
    layers.push({ tensor: 'cls', layer: { kind: 'dense', outputs: hiddenSize, activation } });
    if (tensors.has('cls.norm.weight')) {
      const epsilon = fields.number('attention.layer_norm_epsilon', LIMITS.epsilon, 1e-5);
      layers.push({ tensor: 'cls.norm', layer: { kind: 'norm', outputs: hiddenSize, epsilon } });
    }
  }
  if (outputs > LABELS.max) fields.refuse('classifier.output_labels', `at most ${LABELS.max}`, outputs);
  layers.push({ tensor: last, layer: { kind: 'dense', outputs, activation: 'none' } });
  const given = fields.raw('classifier.pooling_type');
  const classifier: SequenceClassifier = {
    labels: labelsOf(fields.raw('classifier.output_labels'), outputs, (found) =>
      fields.refuse('classifier.output_labels', `${outputs} texts that differ, one an output`, found),
    ),
    pooling:
      given === undefined
        ? pooling
        : (POOLINGS.get(given) ?? fields.refuse('classifier.pooling_type', '1 (mean), 2 (cls) or 3 (last)')),
    independent: false,
  };
  return {
    pooled: layers.map(({ layer }) => layer),
    weights: layers.flatMap(({ tensor }, at): WeightSource[] => [
      { role: `pooled.${at}.weight`, tensor: `${tensor}.weight` },
      { role: `pooled.${at}.bias`, tensor: `${tensor}.bias`, optional: true },
    ]),
    classifier,
  };
}

function labelsOf(given: unknown, outputs: number, refuse: (found: unknown) => never): readonly string[] {
  if (given === undefined) return unnamedLabels(outputs);
  if (!Array.isArray(given)) return refuse(given);
  const labels = given.filter((label): label is string => typeof label === 'string');
  return labels.length === outputs && new Set(labels).size === outputs ? labels : refuse(given);
}
