import { Command } from 'commander';
import { addBench } from './bench.js';
import { addClassify } from './classify.js';
import type { CommandContext } from './CommandContext.js';
import { addEmbed } from './embed.js';
import { addFollow } from './follow.js';
import { addGenerate } from './generate.js';
import { addInspect } from './inspect.js';
import { addJob } from './job.js';
import { addPerplexity } from './perplexity.js';
import { addPlan } from './plan.js';
import { addProfile } from './profile.js';
import { addDoctor } from './doctor.js';
import { addModels } from './models.js';
import { addPull } from './pull.js';
import { refuseRepeated, suggestFlags } from './flags/commandFlags.js';
import { packageRoot } from './library.js';
import { addRerank } from './rerank.js';
import { addScore } from './score.js';
import { addServe } from './serve.js';
import { visible } from './table.js';
import { addTokenize } from './tokenize.js';

/** Lines of help on wide terminals, and where there is none. */
const WIDEST = 120;
/** Descriptions are wrapped into columns no narrower than this. */
const NARROWEST = 24;

const EXAMPLES = `
Examples:
  spillway pull smollm2-135m-instruct
  spillway generate --model smollm2-135m-instruct --input questions.txt \\
    --output answers.jsonl --max-new-tokens 32
  spillway generate --help

Exit codes: 0 all fine; 1 wrong usage, nothing was read or written;
2 a file or the model cannot be used; 3 the memory given is too small;
4 done, but some rows carry an error; 5 stopped by --max-errors;
129, 130 or 143 interrupted. After these and 5 --resume goes on.
Results go to stdout or the named file, words to stderr.
Sizes: 512MiB, 2GiB, 2G, 16GB, plain bytes.`;

/**
 * The whole command line. Its commands run when it is parsed.
 * @param writeHelp takes what is printed where help or the version is asked for; default: standard output, where nobody
 * hears of a failure
 */
export function createProgram(
  context: CommandContext,
  writeHelp: (text: string) => void = (text) => void process.stdout.write(text),
): Command {
  const program = new Command('spillway')
    .description(
      'Generates text for files of prompts, classifies, scores and embeds them, or serves that over HTTP, with language models, for throughput, within the memory given.',
    )
    .version(packageRoot().version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureHelp({ minWidthToWrap: NARROWEST })
    .configureOutput({ getOutHelpWidth: () => widthOf(process.stdout), getErrHelpWidth: () => widthOf(process.stderr) })
    .addHelpText('after', EXAMPLES)
    .showSuggestionAfterError()
    .showHelpAfterError('(--help lists all commands and flags)')
    .configureOutput({ writeOut: writeHelp, writeErr: (text) => void process.stderr.write(visible(text)) })
    .exitOverride();
  for (const add of [
    addGenerate,
    addClassify,
    addScore,
    addRerank,
    addEmbed,
    addServe,
    addJob,
    addFollow,
    addTokenize,
    addPerplexity,
    addInspect,
    addPull,
    addModels,
    addDoctor,
    addProfile,
    addPlan,
    addBench,
  ])
    add(program, context);
  for (const command of commandsOf(program)) {
    refuseRepeated(command);
    suggestFlags(command);
  }
  return program;
}

/** All commands, those of commands among them. */
function commandsOf(program: Command): readonly Command[] {
  return program.commands.flatMap((command) => [command, ...commandsOf(command)]);
}

/** The long names of all flags of all commands. */
export function flagsOf(program: Command): ReadonlySet<string> {
  return new Set(commandsOf(program).flatMap(({ options }) => options.map(({ long }) => long ?? '')));
}

function widthOf({ isTTY, columns }: NodeJS.WriteStream): number {
  return isTTY ? Math.min(columns, WIDEST) : WIDEST;
}
