import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addBench } from './bench.js';
import type { CommandContext } from './CommandContext.js';
import { addGenerate } from './generate.js';
import { addInspect } from './inspect.js';
import { addPerplexity } from './perplexity.js';
import { addPlan } from './plan.js';
import { addProfile } from './profile.js';
import { addPull } from './pull.js';
import { addTokenize } from './tokenize.js';

const EXIT_CODES = `
Exit codes: 0 all fine; 1 wrong usage, nothing was read or written; 2 a file or the model cannot be used;
3 the memory given is too small; 4 done, but some rows carry an error; 130 or 143 interrupted.
Results go to stdout or the named file, words to stderr. Sizes: 512MiB, 2GiB, 16GB, plain bytes.`;

/**
 * The whole command line. Its commands run when it is parsed.
 * @param writeHelp takes what is printed where help or the version is asked for; default: standard output, where nobody hears of a failure
 */
export function createProgram(context: CommandContext, writeHelp: (text: string) => void = (text) => void process.stdout.write(text)): Command {
  const program = new Command('spillway')
    .description('Generates text for files of prompts with language models, for throughput, within the memory given.')
    .version(packageVersion(), '--version', 'print the version')
    .helpOption('--help', 'print this help')
    .helpCommand(false)
    .configureHelp({ helpWidth: 120 })
    .addHelpText('after', EXIT_CODES)
    .showSuggestionAfterError()
    .showHelpAfterError('(--help lists all commands and flags)')
    .configureOutput({ writeOut: writeHelp })
    .exitOverride();
  for (const add of [addGenerate, addTokenize, addPerplexity, addInspect, addPull, addProfile, addPlan, addBench]) add(program, context);
  return program;
}

function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
  return manifest.version;
}
