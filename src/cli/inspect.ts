import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addModelFlag, type ModelFlags } from './flags/engineFlags.js';
import { path } from './flags/parsers.js';
import { createTokenizer, formatBytes, readModel, UsageError, type ModelSource, type TensorInfo } from './library.js';
import { pulledModel } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';

interface InspectFlags extends ModelFlags {
  readonly json: boolean;
}

export function addInspect(program: Command, context: CommandContext): void {
  const command = program
    .command('inspect')
    .description("Prints what a model's files say: architecture, sizes, tokenizer, tensors. Reads no weights.");
  command.argument('[model]', 'the same as --model');
  addModelFlag(command);
  addSwitch(command, '--json', 'print one JSON document, not tables');
  command.action(async (named: string | undefined, given: InspectFlags) => {
    if (named !== undefined && (given.model as string | undefined) !== undefined)
      throw new UsageError('inspect: give the model once, as an argument or with --model');
    if (named === '') throw new UsageError('inspect: found an empty name, expected that of a model');
    const flags = named === undefined ? given : { ...given, model: path(named) };
    requireFlags(flags, 'model');
    checkStandardOutput();
    const meter = new ProgressMeter('auto', process.stderr);
    const model = await pulledModel(flags.model, context.signal, meter).finally(() => meter.stop());
    const facts = await factsOf(await readModel(model));
    await context.print(flags.json ? `${JSON.stringify(facts, plainArrays, 2)}\n` : formatFacts(facts));
  });
}

/** The document of `inspect --json`. */
interface ModelFacts {
  readonly model: string;
  readonly format: string;
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
  readonly architecture: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly tokenizer: TokenizerFacts;
  /** Everything that the engine is told about the architecture. */
  readonly decoder: ModelSource['decoder'];
  readonly tensors: readonly {
    readonly name: string;
    readonly type: string;
    readonly shape: readonly number[];
    readonly bytes: number;
    readonly file: string;
  }[];
}

type TokenizerFacts =
  | { readonly kind: 'none'; readonly reason: string }
  | {
      readonly kind: 'gguf' | 'tokenizer.json';
      readonly vocabularySize: number;
      readonly beginToken: number | null;
      readonly endTokens: readonly number[];
      readonly hasChatTemplate: boolean;
    };

const MXFP4_BYTES_PER_SCALE = 16;

async function factsOf(source: ModelSource): Promise<ModelFacts> {
  const { decoder, tensors, files } = source;
  const { layers, hiddenSize, heads, kvHeads, headDim, feedForwardSize, vocabularySize, contextTokens } = decoder;
  const sum = (of: (tensor: TensorInfo) => number): number => tensors.reduce((total, tensor) => total + of(tensor), 0);
  return {
    model: source.path,
    format: source.format,
    files: await Promise.all(files.map(async (path) => ({ path, bytes: (await stat(path)).size }))),
    architecture: decoder.family,
    sizes: {
      parameters: sum(({ shape }) => shape.reduce((product, extent) => product * extent, 1)),
      weightBytes: sum(bytesOf),
      layers,
      hiddenSize,
      heads,
      kvHeads,
      headDim,
      feedForwardSize,
      vocabularySize,
      contextTokens,
    },
    tokenizer: tokenizerFacts(source),
    decoder,
    tensors: tensors.map((tensor) => ({
      name: tensor.name,
      type: tensor.type,
      shape: tensor.shape,
      bytes: bytesOf(tensor),
      file: files[tensor.file] ?? '',
    })),
  };
}

/** With the scales that stand apart, one byte for sixteen of MXFP4's blocks. */
function bytesOf({ bytes, blockScales }: TensorInfo): number {
  return blockScales ? bytes + bytes / MXFP4_BYTES_PER_SCALE : bytes;
}

function tokenizerFacts({ tokenizer: source, decoder }: ModelSource): TokenizerFacts {
  if (source.kind === 'none') return { kind: 'none', reason: source.reason };
  const { vocabularySize, beginToken, endTokens, hasChatTemplate } = createTokenizer(source, decoder.vocabularySize);
  return {
    kind: source.kind,
    vocabularySize,
    beginToken: beginToken ?? null,
    endTokens: [...endTokens],
    hasChatTemplate,
  };
}

/** For JSON.stringify: typed arrays as arrays, a Set likewise. */
function plainArrays(_key: string, value: unknown): unknown {
  return value instanceof Float32Array ? [...value] : value;
}

function formatFacts(facts: ModelFacts): string {
  const { tokenizer } = facts;
  const files = facts.files.map(({ path, bytes }) => `${path} (${formatBytes(bytes)})`);
  const tokenizerText =
    tokenizer.kind === 'none'
      ? `none: ${tokenizer.reason}`
      : `${tokenizer.kind}, ${tokenizer.vocabularySize} tokens, begin ${tokenizer.beginToken ?? 'none'}, ends ${tokenizer.endTokens.join(' ') || 'none'}, ` +
        `${tokenizer.hasChatTemplate ? 'with' : 'no'} chat template`;
  const head = [
    ['model', facts.model],
    ['format', facts.format],
    ...files.map((file, at) => [at === 0 ? 'files' : '', file]),
    ['architecture', facts.architecture],
    ...Object.entries(facts.sizes).map(([name, value]) => [
      name,
      name.endsWith('Bytes') ? formatBytes(value) : String(value),
    ]),
    ['tokenizer', tokenizerText],
  ];
  const tensors = facts.tensors.map(({ name, type, shape, bytes }) => [
    name,
    type,
    shape.join(' x '),
    formatBytes(bytes),
  ]);
  return `${formatTable(head)}\n${formatTable([['tensor', 'type', 'shape', 'size'], ...tensors])}`;
}
