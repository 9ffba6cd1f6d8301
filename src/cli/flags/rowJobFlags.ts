import { Option, type Command } from 'commander';
import { BLOCK_LIMITS, RUN_OPTIONS } from '../library.js';
import type { ProgressMode } from '../ProgressMeter.js';
import { addSwitch } from './commandFlags.js';
import {
  addCompressionFlags,
  addMachineFlags,
  addModelFlag,
  addPlanFlags,
  type EngineFlags,
  type PlanFlags,
} from './engineFlags.js';
import { addLogFlag, addProgressFlag } from './logFlags.js';
import { decimal, path, size, wholeNumber } from './parsers.js';
import { addPeerFlags, addresses, type PeerFlags } from './peerFlags.js';
import type { CascadeFlags } from './cascadeFlags.js';
import type { PromptFlags } from './promptFlags.js';
import { addShardFlags, type ShardFlags } from './shardFlags.js';
import { addSubsetFlags, type SubsetFlags } from './subsetFlags.js';
import { addTableFlags, type RowWords, type TableFlags } from './tableFlags.js';
import { addWatchFlag, type WatchFlags } from './watchFlags.js';

/** The flags that all commands that go through a file of rows have in common. */
export interface RowJobFlags
  extends
    EngineFlags,
    PromptFlags,
    PlanFlags,
    ShardFlags,
    SubsetFlags,
    TableFlags,
    PeerFlags,
    WatchFlags,
    CascadeFlags {
  readonly peers?: readonly string[];
  readonly microBatches?: number;
  readonly carryFields: boolean;
  readonly sharePrefixes: 'on' | 'off';
  readonly lookAheadRows: number;
  readonly lookAheadBytes?: number;
  readonly reuse?: string;
  readonly dryRun: boolean;
  readonly json: boolean;
  readonly resume: boolean;
  readonly retryErrors: boolean;
  readonly overwrite: boolean;
  readonly order: 'input' | 'completion';
  readonly rowTimeout?: number;
  readonly truth?: string;
  readonly stats?: string;
  readonly trace?: string;
  readonly progress: ProgressMode;
}

/** The model, the files, and how rows are read. */
export function addRowFileFlags(command: Command, words?: RowWords): void {
  command.optionsGroup('Model and files:');
  addModelFlag(command);
  addTableFlags(command, words);
  addSwitch(command, '--carry-fields', 'other fields of a row are carried into its result, as `row`');
  command.addOption(
    new Option('--share-prefixes <on|off>', 'what prompts begin with alike is computed once')
      .choices(['on', 'off'])
      .default('on'),
  );
  command.option(
    '--look-ahead-rows <n>',
    'rows that are read beyond those for which there are places: what begins alike among them is brought together',
    wholeNumber(RUN_OPTIONS.lookAhead.rows.least, RUN_OPTIONS.lookAhead.rows.most),
    RUN_OPTIONS.lookAhead.rows.fallback,
  );
  command.option(
    '--look-ahead-bytes <size>',
    'most that all rows in flight and their results may take (default: what --cpu-memory leaves for them)',
    size,
  );
  command.addOption(
    new Option(
      '--reuse <file>',
      'answers that last: rows that it has from earlier runs are not computed, and it gets those that are (default: none)',
    ).argParser(path),
  );
}

/** The machine, the plan and the job: they come last. */
export function addRowJobFlags(command: Command): void {
  addMachineFlags(command);
  addCompressionFlags(command, true);
  addPlanFlags(command);
  command.optionsGroup('Engines of other layers:');
  command.addOption(
    new Option(
      '--peers <addresses>',
      'engines that follow (`spillway follow`), in order, as host:port or unix:path with commas between (default: none; all layers are here)',
    ).argParser(addresses),
  );
  command.option(
    '--micro-batches <n>',
    'beside --peers: parts of the block, so that all engines compute at once (default: --batches; where weights stream, as many as engines)',
    wholeNumber(1, BLOCK_LIMITS.batches),
  );
  addPeerFlags(command);
  command.optionsGroup('Job:');
  addShardFlags(command);
  addSubsetFlags(command);
  addSwitch(
    command,
    '--dry-run',
    'check the rows, show the first prompts, and say what the run would take; computes and writes nothing (but --stats)',
  );
  addSwitch(command, '--json', 'with --dry-run: print one JSON document, not words');
  addSwitch(command, '--resume', 'go on with an output that exists: its rows are not done again');
  addSwitch(
    command,
    '--retry-errors',
    'with --resume: do error rows again; they then stand at the end (else they are kept)',
  );
  addSwitch(command, '--overwrite', 'begin anew over an output that exists (else it is refused)');
  command.addOption(new Option('--order <order>', 'of the results').choices(['input', 'completion']).default('input'));
  command.option(
    '--row-timeout <seconds>',
    'a row that takes longer, from when it is admitted, ends as an error (default: any may)',
    decimal(RUN_OPTIONS.rowTimeout),
  );
  command.addOption(
    new Option('--stats <file>', 'write what the run did, as one JSON document (default: none)').argParser(path),
  );
  command.addOption(
    new Option('--trace <file>', 'write every task as a Chrome trace, for Perfetto (default: none)').argParser(path),
  );
  addWatchFlag(command);
  addProgressFlag(command);
  addLogFlag(command);
}

/** Where answers are texts that can be compared. */
export function addTruthFlag(command: Command): void {
  command.option(
    '--truth <column>',
    'the column that says what is right: accuracy, confusion and calibration are said at the end and in --stats; NAME=COLUMN for one of several answers (default: none)',
  );
}
