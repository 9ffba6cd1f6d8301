import { join } from 'node:path';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { type DecoderSpec, isEncoder } from '../DecoderSpec.js';
import type { ModelHeader, PooledModule, SequenceClassifier } from '../ModelSource.js';
import type { TensorBinding } from '../TensorBinding.js';
import { bindWeights } from './bindWeights.js';
import { bert } from './families/bert.js';
import { distilBert } from './families/distilBert.js';
import { smollm3 } from './families/smollm3.js';
import { granite } from './families/granite.js';
import { bamba, graniteHybrid } from './families/graniteHybrid.js';
import { graniteMoe } from './families/graniteMoe.js';
import { olmo2, olmo3 } from './families/olmo2.js';
import { olmoHybrid } from './families/olmoHybrid.js';
import { persimmon } from './families/persimmon.js';
import { glm, glm4 } from './families/glm.js';
import { exaone4, exaoneMoe } from './families/exaone4.js';
import { cohere, cohere2, cohere2Moe } from './families/cohere.js';
import { ministral } from './families/ministral.js';
import { starcoder2 } from './families/starcoder2.js';
import { stablelm } from './families/stablelm.js';
import { glm4Moe, dots1, solarOpen } from './families/glm4Moe.js';
import { ernie45, ernie45Moe } from './families/ernie45.js';
import { hunyuanDense, hunyuanMoe } from './families/hunyuan.js';
import { nemotron } from './families/nemotron.js';
import { albert } from './families/albert.js';
import { arcee } from './families/arcee.js';
import { phi } from './families/phi.js';
import { flexOlmo, olmoe } from './families/olmoe.js';
import { qwen2Moe } from './families/qwen2Moe.js';
import { minimaxM2 } from './families/minimaxM2.js';
import { gemma } from './families/gemma.js';
import { seedOss, helium, cwm, iquestCoder } from './families/llamaLike.js';
import { internlm2, internlm3 } from './families/internlm.js';
import { mellum } from './families/mellum.js';
import { falcon } from './families/falcon.js';
import { gemma2, vaultGemma } from './families/gemma2.js';
import { gemma3, gemmaEmbedding } from './families/gemma3.js';
import { gptNeox } from './families/gptNeox.js';
import { gptOss } from './families/gptOss.js';
import { gte } from './families/gte.js';
import { debertaV2 } from './families/debertaV2.js';
import { electra } from './families/electra.js';
import { jinaBert } from './families/jinaBert.js';
import { lfm2, lfm2Moe, lfm3 } from './families/lfm2.js';
import { llama } from './families/llama.js';
import { mistral } from './families/mistral.js';
import { mixtral } from './families/mixtral.js';
import { modernBert } from './families/modernBert.js';
import { mpnet } from './families/mpnet.js';
import { nomicBert } from './families/nomicBert.js';
import { opt } from './families/opt.js';
import { phi3 } from './families/phi3.js';
import { qwen2 } from './families/qwen2.js';
import { qwen3 } from './families/qwen3.js';
import { qwen3Moe } from './families/qwen3Moe.js';
import { qwen35, qwen35Moe, qwen3Next } from './families/qwen35.js';
import { axk1, deepseekV2, deepseekV3, mistral4, sarvamMla, youtu } from './families/deepseek.js';
import { falconH1 } from './families/falconH1.js';
import { flint } from './families/flint.js';
import { gemma3n } from './families/gemma3n.js';
import { gemma4 } from './families/gemma4.js';
import { jamba } from './families/jamba.js';
import { kimiLinear } from './families/kimiLinear.js';
import { mamba, mamba2 } from './families/mamba.js';
import { glm4MoeLite } from './families/glm4MoeLite.js';
import { llama4 } from './families/llama4.js';
import { longcatFlash } from './families/longcatFlash.js';
import { minicpm3 } from './families/minicpm3.js';
import { ministral3 } from './families/ministral3.js';
import { exaone } from './families/exaone.js';
import { apertus } from './families/apertus.js';
import { bloom } from './families/bloom.js';
import { gptBigcode } from './families/gptBigcode.js';
import { codegen, gptj } from './families/gptj.js';
import { gptNeo } from './families/gptNeo.js';
import { mpt } from './families/mpt.js';
import { nanochat, olmo } from './families/olmo.js';
import { nemotronH, nemotronHMoe } from './families/nemotronH.js';
import { phimoe } from './families/phimoe.js';
import { jais2 } from './families/jais2.js';
import { hunyuanV3 } from './families/hunyuanV3.js';
import { afmoe } from './families/afmoe.js';
import { bailingMoe, sarvamMoe } from './families/bailing.js';
import { bailingHybrid } from './families/bailingHybrid.js';
import { biogpt } from './families/biogpt.js';
import { dbrx } from './families/dbrx.js';
import { kolibri1 } from './families/kolibri1.js';
import { laguna } from './families/laguna.js';
import { mimoV2 } from './families/mimoV2.js';
import { minicpm } from './families/minicpm.js';
import { minimax } from './families/minimax.js';
import { minimaxM3 } from './families/minimaxM3.js';
import { openaiGpt } from './families/openaiGpt.js';
import { hyperClovaX } from './families/hyperClovaX.js';
import { mllama } from './families/mllama.js';
import { deepseekV32, glmMoeDsa } from './families/sparseLatent.js';
import { gpt2 } from './families/gpt2.js';
import { graniteMoeSwa, graniteSwa } from './families/graniteSwa.js';
import { recurrentGemma } from './families/recurrentGemma.js';
import { roberta } from './families/roberta.js';
import type { Description, Family, WeightSource } from './Family.js';
import { foundInFile } from '../../arguments/found.js';
import { didYouMean } from '../../arguments/nearest.js';
import { Fields } from './Fields.js';
import { likestFamily } from './likestFamily.js';
import { refuseQuantised } from './refuseQuantised.js';
import { checkDecoder } from './specs.js';
import { inside, seeingModelTypes, textPart } from './textParts.js';
import { TensorIndex } from './TensorIndex.js';

const FAMILIES: readonly Family[] = [
  opt,
  llama,
  mistral,
  qwen2,
  qwen3,
  qwen3Moe,
  gemma2,
  gemma3,
  gemmaEmbedding,
  gptNeox,
  falcon,
  phi3,
  mixtral,
  gptOss,
  bert,
  roberta,
  mpnet,
  distilBert,
  nomicBert,
  gte,
  modernBert,
  jinaBert,
  debertaV2,
  electra,
  albert,
  smollm3,
  granite,
  graniteMoe,
  olmo2,
  olmo3,
  glm,
  glm4,
  exaone4,
  exaoneMoe,
  cohere,
  cohere2,
  ministral,
  starcoder2,
  stablelm,
  glm4Moe,
  dots1,
  solarOpen,
  ernie45,
  ernie45Moe,
  hunyuanDense,
  hunyuanMoe,
  nemotron,
  arcee,
  phi,
  olmoe,
  qwen2Moe,
  minimaxM2,
  gemma,
  seedOss,
  helium,
  cwm,
  iquestCoder,
  internlm2,
  internlm3,
  laguna,
  longcatFlash,
  mellum,
  mimoV2,
  qwen35,
  qwen35Moe,
  qwen3Next,
  lfm2,
  lfm2Moe,
  graniteHybrid,
  bamba,
  gemma4,
  llama4,
  ministral3,
  deepseekV2,
  deepseekV3,
  glm4MoeLite,
  minicpm3,
  youtu,
  mistral4,
  exaone,
  jais2,
  hunyuanV3,
  afmoe,
  sarvamMoe,
  bailingMoe,
  bailingHybrid,
  biogpt,
  dbrx,
  minicpm,
  minimax,
  minimaxM3,
  openaiGpt,
  axk1,
  cohere2Moe,
  kolibri1,
  gpt2,
  graniteSwa,
  vaultGemma,
  graniteMoeSwa,
  hyperClovaX,
  deepseekV32,
  glmMoeDsa,
  mllama,
  apertus,
  bloom,
  gptBigcode,
  gptj,
  codegen,
  gptNeo,
  mpt,
  olmo,
  nanochat,
  flexOlmo,
  phimoe,
  nemotronH,
  nemotronHMoe,
  gemma3n,
  falconH1,
  mamba,
  mamba2,
  jamba,
  kimiLinear,
  flint,
  sarvamMla,
  lfm3,
  olmoHybrid,
  persimmon,
  recurrentGemma,
];

/** `model_type` values of config.json that are known. */
export const knownModelTypes: readonly string[] = [
  ...FAMILIES.flatMap((family) => family.modelTypes),
  ...seeingModelTypes,
];
/** Architectures of GGUF whose files are another one's, but for what pictures need, or but for nothing. */
const GGUF_ALIASES: ReadonlyMap<unknown, string> = new Map([
  ['qwen2vl', 'qwen2'],
  ['qwen3vl', 'qwen3'],
  ['qwen3vlmoe', 'qwen3moe'],
  ['xverse', 'llama'],
  ['orion', 'stablelm'],
  ['paddleocr', 'qwen2'],
  ['pangu-embedded', 'qwen2'],
]);

/** `general.architecture` values of GGUF that are known. */
export const knownGgufArchitectures: readonly string[] = [
  ...FAMILIES.flatMap((family) => (family.gguf === undefined ? [] : [family.gguf.architecture])),
  ...[...GGUF_ALIASES.keys()].map(String),
];

/** A model as its files describe it. */
export interface DescribedModel {
  readonly decoder: DecoderSpec;
  readonly bindings: TensorBinding[];
  readonly classifier?: SequenceClassifier;
  readonly eightBits?: boolean;
}

/**
 * Turns what a model's files say of it into the decoder to run and the place of each of its weights. Pure; the header
 * is not trusted.
 * @throws ModelFileError for an unknown family, a field out of bounds, a tensor that is missing or of the wrong shape
 */
export function describeModel(header: ModelHeader): DescribedModel {
  const modules = header.format === 'gguf' ? [] : (header.modules ?? []);
  const tensors = new TensorIndex(
    header.path,
    [...header.tensors, ...modules.flatMap(({ weight, bias }) => (bias ? [weight, bias] : [weight]))],
    header.format === 'gguf' ? undefined : header.numbers,
  );
  const file = header.format === 'gguf' ? header.path : join(header.path, 'config.json');
  const described =
    header.format === 'gguf' ? describeGguf(header, tensors) : describeConfig(header.config, file, tensors);
  const description =
    header.format === 'gguf' ? described : withModules(withRowTokens(described, header.rowTokens), modules, file);
  checkDecoder(file, description.decoder);
  const { decoder, classifier, eightBits } = description;
  const keeps = ({ role, layer }: TensorBinding): boolean =>
    eightBits?.except.some((each) => each.role === role && layer >= each.from * decoder.layers) ?? false;
  const bindings = bindWeights(description, tensors).map((each): TensorBinding =>
    keeps(each) ? { ...each, notEightBits: true } : each,
  );
  if (header.format === 'gguf') refuseUnused(tensors);
  return { decoder, bindings, ...(classifier && { classifier }), ...(eightBits && { eightBits: true }) };
}

/**
 * The decoder that a config.json describes, without any weights.
 * @param config as parsed; not trusted
 * @param path the file, for messages
 * @throws ModelFileError for an unknown family or a field out of bounds
 */
export function describeDecoder(config: unknown, path: string): DecoderSpec {
  const { decoder } = describeConfig(config, path);
  checkDecoder(path, decoder);
  return decoder;
}

/** An encoder's rows are as long as its folder says, and of positions it has as many, where its file has more. */
function withRowTokens(description: Description, rowTokens = Infinity): Description {
  const { decoder, weights } = description;
  const { contextTokens, position } = decoder;
  if (!isEncoder(decoder) || rowTokens >= contextTokens) return description;
  const sizes = position.kind === 'learned' ? [rowTokens + position.offset, contextTokens - rowTokens] : [];
  return {
    ...description,
    decoder: { ...decoder, contextTokens: rowTokens },
    weights: weights.map((source) =>
      source.role === 'position_embedding' ? { ...source, part: { groups: 1, sizes, index: 0 } } : source,
    ),
  };
}

/** The layers that sentence-transformers puts after the pooling: of a model that has none of its own. */
function withModules(description: Description, modules: readonly PooledModule[], file: string): Description {
  if (modules.length === 0) return description;
  if (description.classifier)
    throw new ModelFileError(file, 'architectures', 'a classifier beside modules after the pooling', 'one of them');
  return {
    ...description,
    decoder: { ...description.decoder, pooled: modules.map(({ layer }) => layer) },
    weights: [
      ...description.weights,
      ...modules.flatMap(({ weight, bias }, at): WeightSource[] => [
        { role: `pooled.${at}.weight`, tensor: weight.name },
        ...(bias ? [{ role: `pooled.${at}.bias` as const, tensor: bias.name }] : []),
      ]),
    ],
  };
}

function describeConfig(value: unknown, path: string, tensors?: TensorIndex): Description {
  const whole = Fields.ofObject(path, value);
  const text = textPart(whole);
  const config = text ?? whole;
  const type = config.raw('model_type');
  // Jina's BERT has no model type of its own.
  const isJina = type === 'bert' && config.raw('position_embedding_type') === 'alibi';
  const family = isJina
    ? jinaBert
    : FAMILIES.find(({ modelTypes }) => typeof type === 'string' && modelTypes.includes(type));
  if (family === undefined) return config.refuse('model_type', oneOf(knownModelTypes, type, config));
  refuseQuantised(whole);
  // Embedding models are made of decoders that way.
  for (const each of [config, config.child('text_config')])
    if (each?.boolean('is_causal', true) === false) each.refuse('is_causal', 'true: only causal models are computed');
  const description = family.fromConfig(config, tensors);
  return text === undefined ? description : inside(description, tensors);
}

function describeGguf(header: ModelHeader & { format: 'gguf' }, tensors: TensorIndex): Description {
  const { path, metadata, vectors } = header;
  const architecture = metadata.get('general.architecture');
  const known = GGUF_ALIASES.get(architecture) ?? architecture;
  const gguf = FAMILIES.find((family) => family.gguf !== undefined && family.gguf.architecture === known)?.gguf;
  if (gguf === undefined || typeof architecture !== 'string') {
    throw new ModelFileError(
      path,
      'general.architecture',
      foundInFile(architecture),
      oneOf(knownGgufArchitectures, architecture),
    );
  }
  return gguf.describe({ fields: Fields.ofMetadata(path, metadata, `${architecture}.`), tensors, vectors });
}

/** Too many to list: the one that was probably meant, or that has most of the same settings. */
function oneOf(known: readonly string[], found: unknown, config?: Fields): string {
  const meant = typeof found === 'string' ? didYouMean(found, known) : '';
  const like = meant === '' && config ? likestFamily(FAMILIES, config) : undefined;
  const near = like === undefined ? meant : ` (its settings are most like those of ${like})`;
  return `one of the ${known.length} that are known (README)${near}`;
}

/**
 * A tensor that the family has no use for is a bias or a norm that we would leave out: better no answer than a wrong
 * one.
 */
function refuseUnused(tensors: TensorIndex): void {
  // Tables that very old files carry, and that follow from the metadata.
  const derived = /^(blk\.\d+\.attn_rot_embd|blk\.\d+\.attn_rot_freqs)\.weight$/;
  const [name, ...others] = tensors.unused().filter((tensor) => !derived.test(tensor));
  if (name === undefined) return;
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  throw new ModelFileError(
    tensors.path,
    `tensor ${name}`,
    `a tensor that is not used by this architecture${more}`,
    'none but the known ones',
  );
}
