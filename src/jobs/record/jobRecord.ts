import { createHash, randomBytes } from 'node:crypto';
import { exceedsMemory } from '../../arguments/jsonMemory.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { found, shortened } from '../../arguments/found.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { withoutSecrets } from '../input/sqlSecrets.js';
import { listMissing } from '../../model/files/printable.js';
import type { FileIdentity, ModelIdentity } from '../../model/identity/identifyModel.js';
import type { GenerateOptions } from '../../Row.js';
import type { ChunkOptions } from '../../rows/chunks.js';
import { responseFormatOf } from '../../rows/responseFormat.js';
import { TOKEN_LISTS } from '../../rows/rowFields.js';
import { writeFileAtomic } from '../../files/atomicFile.js';
import { BEGIN_ANEW } from '../../files/fileErrors.js';
import type { WriteOptions } from '../formats/RowFormat.js';
import type { Table } from '../formats/Table.js';
import { begunBy, filesOf, type InputFingerprint } from './fingerprint.js';
import { recordPath } from '../output/sidecarFiles.js';
import { readRegularStart } from '../../files/specialFiles.js';

/**
 * Records of version 1 did not hold what of the engine decides results, and samples of large files only; those of
 * version 2 nothing of their journal.
 */
const VERSION = 3;

/** The sidecar file of an output: what the run that began it was. A resumed run must be the same. */
export interface JobRecord {
  readonly format: 'spillway-job';
  readonly version: typeof VERSION;
  /** At random, of the run that began the output; its journal says the same. */
  readonly run: string;
  /** Where results are: in the output itself, or in the journal beside it. */
  readonly journal: 'output' | 'apart';
  /**
   * Where rows that failed go instead of into the output, from the record's folder; replaced by this job, and nobody
   * else's.
   */
  readonly errors?: string;
  /** The model's files, in words for people: `engine` tells one model from another. */
  readonly model: readonly FileIdentity[];
  /** The engine's `resultIdentity`, or what is known of it. */
  readonly engine: Readonly<Record<string, unknown>>;
  /** Everything else that decides what is written for a row; defaults filled in. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly input: InputFingerprint;
  /** When the job began, which chat templates are told that ask for the time; of one that was not told when. */
  readonly begun?: string;
  /** A shard's complete part: there once all of its rows are done. */
  readonly complete?: CompletePart;
}

/** An entry of options, where columns that are called as parameters are data: earlier builds took them unasked. */
export const NAMED_PARAMETERS = { parameters: 'named' } as const;

/** The parts of a record that decide a job's results: the same for all of its shards. */
export type JobIdentity = Pick<JobRecord, 'engine' | 'options' | 'input'>;

/** The contents of a shard's part that is put together with the others. */
export interface CompletePart {
  /** Rows of the whole input. */
  readonly rows: number;
  /** SHA-256 of the file with the results. */
  readonly sha256: string;
  /** How results are written. */
  readonly written: Omit<WriteOptions, 'table' | 'name'>;
  /** The facts common to the rows of a stream, which cannot be read again: of a table its columns and its dialect. */
  readonly table?: Pick<Table, 'columns' | 'dialect'>;
}

const ADJUSTING = [
  'presencePenalty',
  'frequencyPenalty',
  'minNewTokens',
  ...TOKEN_LISTS,
  'retries',
  'retryTemperature',
] as const;

/**
 * The options that decide a row's result, with their defaults, so that a default given explicitly makes no difference.
 */
export function resultOptions(options: GenerateOptions): Readonly<Record<string, unknown>> {
  return {
    maxNewTokens: options.maxNewTokens ?? 128,
    temperature: options.temperature ?? 0,
    topP: options.topP ?? 1,
    topK: options.topK ?? 0,
    minP: options.minP ?? 0,
    repetitionPenalty: options.repetitionPenalty ?? 1,
    seed: options.seed ?? 0,
    stop: options.stop ?? [],
    // What came later, as far as it is said: records from before stay good.
    ...Object.fromEntries(ADJUSTING.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]]))),
    samples: options.samples ?? null,
    ignoreEos: options.ignoreEos ?? false,
    logprobs: options.logprobs ?? null,
    ...(options.questions && { questions: options.questions }),
    ...chunkOptions(options),
    ...(options.merge !== undefined && { merge: options.merge }),
    ...(options.confidence !== undefined && { confidence: options.confidence }),
    escapeSpecialTokens: options.escapeSpecialTokens ?? false,
    ...promptOptions(options),
  };
}

/** How rows' own texts are parted, as far as they are. */
export function chunkOptions({ chunkTokens, chunkOverlap = 0 }: ChunkOptions): Readonly<Record<string, unknown>> {
  return chunkTokens === undefined ? {} : { chunkTokens, chunkOverlap };
}

/**
 * How prompts are made, and what becomes of reasoning. Most of it as far as it is not the default: records from before
 * there was a choice stay good.
 */
export function promptOptions({
  promptTemplate,
  system,
  chat,
  tools,
  toolChoice,
  parallelToolCalls = true,
  templateArgs,
  now,
  truncate = 'off',
  reasoning = 'keep',
  responseFormat,
  schemaInPrompt,
}: GenerateOptions): Readonly<Record<string, unknown>> {
  return {
    ...(promptTemplate !== undefined && { promptTemplate }),
    ...(system !== undefined && { system }),
    // What is not said lines of text and other rows decide for themselves, unless there is a system message.
    chat: chat ?? (system === undefined ? null : true),
    ...(tools && { tools }),
    ...(toolChoice !== undefined && { toolChoice }),
    ...(!parallelToolCalls && { parallelToolCalls }),
    ...(templateArgs && { templateArgs }),
    ...(now !== undefined && now !== null && { now: new Date(now).toISOString() }),
    ...(truncate !== 'off' && { truncate }),
    ...(reasoning !== 'keep' && { reasoning }),
    ...(responseFormat && { responseFormat: responseFormatOf(responseFormat) }),
    // Earlier builds took them token by token.
    ...(responseFormat?.type === 'choices' && { choices: 'whole' }),
    ...(schemaInPrompt === true && { schemaInPrompt }),
  };
}

/**
 * The record of a run by what is known before its first row.
 * @param engine of which `model` is filled in where it is not known otherwise
 */
export function recordOf(
  files: Pick<JobRecord, 'journal' | 'errors'>,
  model: ModelIdentity | undefined,
  engine: object,
  options: JobRecord['options'],
  input: InputFingerprint,
): JobRecord {
  const identities = model ? [...model.weights, ...model.settings] : [];
  return {
    format: 'spillway-job',
    version: VERSION,
    run: randomBytes(8).toString('hex'),
    ...files,
    model: identities.map(({ name, bytes, hash }) => ({ name, bytes, hash })),
    engine: { ...(model && { model: model.hash }), ...engine },
    options: withoutQuery(options),
    input,
  };
}

/** A query may hold passwords of what it attaches: its fingerprint tells whether it is the same one. */
function withoutQuery(options: JobRecord['options']): JobRecord['options'] {
  const { input, database } = options;
  if (typeof input !== 'string' || !input.startsWith('sql:')) return options;
  const sha256 = createHash('sha256').update(input).digest('hex');
  return {
    ...options,
    ...(typeof database === 'string' && { database: withoutSecrets(database) }),
    input: `a query of ${input.length - 'sql:'.length} characters, SHA-256 ${sha256}`,
  };
}

/**
 * The record once there is an engine.
 * @throws UsageError for an engine that is not what was said of it
 */
export function withEngine(record: JobRecord, engine: object | undefined): JobRecord {
  if (engine === undefined) return record;
  const whole: JobRecord = { ...record, engine: Object.fromEntries(Object.entries(engine)) };
  const others = Object.entries(record.engine).filter(([name, value]) => !same(value, whole.engine[name]));
  if (others.length === 0) return whole;
  const differences = others.map(([name, was]) => describeValues(name, was, whole.engine[name])).join(', ');
  throw new UsageError(`the engine is not the one that the job was opened for: it differs in ${differences}`);
}

/** @param mode permissions of a record that was not there */
export async function writeRecord(output: string, record: JobRecord, mode?: number): Promise<void> {
  await writeFileAtomic(recordPath(output), `${JSON.stringify(record, undefined, 2)}\n`, mode);
}

/** A record is far shorter than this, whatever the model's files and the options are; and takes less in memory. */
const MOST_RECORD_BYTES = 16 * 2 ** 20;
const MOST_RECORD_MEMORY = 32 * 2 ** 20;

/** @returns undefined if there is none. @throws JobFileError if it cannot be read or is damaged */
export function readRecord(output: string): JobRecord | undefined {
  const path = recordPath(output);
  const text = readRegularStart(path, MOST_RECORD_BYTES, 'the record of a job');
  if (text === undefined) return undefined;
  const value = exceedsMemory(Buffer.from(text), MOST_RECORD_MEMORY) ? undefined : parseJson(text);
  if (isObject(value) && value['format'] === 'spillway-job' && (value['version'] === 1 || value['version'] === 2)) {
    throw new JobFileError(
      path,
      `found a record of version ${value['version']}, by an earlier Spillway, expected version ${VERSION}: ` +
        `it does not say enough to go on with; finish it with that one; ${BEGIN_ANEW}`,
    );
  }
  if (
    !isObject(value) ||
    value['format'] !== 'spillway-job' ||
    value['version'] !== VERSION ||
    !isList(value['model']) ||
    !value['model'].every((file) => isObject(file) && typeof file['name'] === 'string') ||
    !isObject(value['engine']) ||
    typeof value['run'] !== 'string' ||
    !['output', 'apart'].includes(value['journal'] as string) ||
    !(value['errors'] === undefined || typeof value['errors'] === 'string') ||
    !isObject(value['options']) ||
    !isObject(value['input'])
  ) {
    const expected = `{"format":"spillway-job","version":${VERSION},…}`;
    throw new JobFileError(path, `found something else than the record of a job, expected ${expected}; ${BEGIN_ANEW}`);
  }
  return value as unknown as JobRecord;
}

/** The run that a record tells of; undefined where none can be read. */
export function runOfRecord(output: string): string | undefined {
  try {
    return readRecord(output)?.run;
  } catch {
    // Whoever begins anew does not need it.
    return undefined;
  }
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Refuses a run that differs from the one that began the output, naming each difference.
 * @param known what is not known yet is not compared: `input` is false while the first row of a stream is not, `engine`
 * while only some of its members are
 * @throws UsageError
 */
export function checkSameJob(
  output: string,
  before: JobRecord,
  now: JobRecord,
  { input = true, engine = true } = {},
): void {
  const differences = differencesOf(before, now, { input, engine });
  if (differences.length > 0) {
    throw new UsageError(
      `${output}: cannot be resumed, as this run differs from the one that began it in ${differences.join(', ')}; ` +
        `give what was given then, or another output; ${BEGIN_ANEW}`,
    );
  }
}

/** Picks the part of a record common to all shards. */
export function identityOf({ engine, options: { shard, ...options }, input }: JobRecord): JobIdentity {
  const { index: _, ...dealt } = membersOf(shard);
  const shared = { ...withoutQuery(options), ...(shard !== undefined && { shard: dealt }) };
  return { engine, options: shared, input: begunBy(input) };
}

/** Says in words what two runs differ in. @param known as above */
export function differencesOf(
  before: JobIdentity & Partial<Pick<JobRecord, 'model'>>,
  now: JobIdentity & Partial<Pick<JobRecord, 'model'>>,
  { input = true, engine = true } = {},
): readonly string[] {
  const differences: string[] = [];
  for (const name of namesOf(engine ? before.engine : {}, now.engine)) {
    const [was, is] = [before.engine[name], now.engine[name]];
    if (same(was, is)) continue;
    const [had, has] = [before.model ?? [], now.model ?? []];
    const files = name === 'model' && had.length + has.length > 0;
    differences.push(files ? `the model ${describeModels(had, has)}` : describeValues(name, was, is));
  }
  // Records of earlier builds hold the query itself.
  const [hadOptions, hasOptions] = [withoutQuery(before.options), withoutQuery(now.options)];
  for (const name of namesOf(hadOptions, hasOptions)) {
    const [was, is] = [hadOptions[name], hasOptions[name]];
    if (same(was, is)) continue;
    differences.push(
      name === 'answers'
        ? describeAnswers(was, is)
        : name === 'parameters'
          ? 'which columns are parameters (was those called so, is those that `columns` names)'
          : describeValues(name, was, is),
    );
  }
  if (input && !same(begunBy(before.input), begunBy(now.input)))
    differences.push(`the input${describeInputs(before.input, now.input)}`);
  return differences;
}

function namesOf(...values: readonly object[]): ReadonlySet<string> {
  return new Set(values.flatMap((value) => Object.keys(value)));
}

/** A system message or tools may be long; what tells two GPUs apart is shorter. */
const VALUE_CHARACTERS = 200;

function describeValues(name: string, was: unknown, is: unknown): string {
  const words = (value: unknown): string =>
    value === undefined ? 'not set' : shortened(JSON.stringify(value) ?? 'not set', VALUE_CHARACTERS);
  return `${name} (was ${words(was)}, is ${words(is)})`;
}

/** Records from before answers had a version are of the first. */
function describeAnswers(was: unknown = 1, is: unknown = 1): string {
  return `the version of the answers (was ${found(was)}, is ${found(is)}: labels and completions have other tokens)`;
}

/** `(was a.gguf, is b.gguf)`; of the same names, those whose contents differ. */
function describeModels(was: readonly FileIdentity[], is: readonly FileIdentity[]): string {
  const names = (files: readonly FileIdentity[]): string =>
    files.length === 0 ? 'not given' : listMissing(files.map(({ name }) => name));
  if (names(was) !== names(is)) return `(was ${names(was)}, is ${names(is)})`;
  return `(${names(is.filter((file, at) => !same(file, was[at])))}) by its contents`;
}

function describeInputs(was: InputFingerprint, is: InputFingerprint): string {
  if ((was.kind === 'stream') !== (is.kind === 'stream')) return ` (was a ${was.kind}, is a ${is.kind})`;
  const [before, now] = [filesOf(was), filesOf(is)];
  if (before === undefined || now === undefined) return '';
  if (before.length !== now.length) return ` (was ${before.length} files, is ${now.length})`;
  const [had, has] = [before, now].map((files) => files.reduce((sum, { bytes }) => sum + bytes, 0));
  return had === has ? '' : ` (had ${had} bytes, has ${has})`;
}

/** Equality of plain data whose keys stand in the same order, as ours do. */
function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
