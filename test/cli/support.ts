import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { built } from '../jobs/support/built.js';

export interface CliResult {
  /** 128 and the signal's number where a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Starts the command line in a process of its own, as users do: stderr and stdout are no terminals.
 * @param cwd the folder that it runs in; default this one's
 */
export function startCli(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  cwd?: string,
): ChildProcess {
  return spawn(process.execPath, [built('cli/main.js'), ...args], {
    stdio: 'pipe',
    env: { ...process.env, ...environment },
    cwd,
  });
}

/** Arguments with others after them, which stand in the place of what the flags said before. */
export function withFlags(args: readonly string[], ...others: readonly string[]): string[] {
  const kept = args.filter((_, at) => {
    const flag = args[at]?.startsWith('--') === true ? at : at - 1;
    return !(args[flag]?.startsWith('--') === true && others.includes(args[flag]));
  });
  return [...kept, ...others];
}

/** Runs the command line to its end. */
export async function runCli(
  args: readonly string[],
  input = '',
  environment: Readonly<Record<string, string>> = {},
  cwd?: string,
): Promise<CliResult> {
  const child = startCli(args, environment, cwd);
  child.stdin?.on('error', () => undefined).end(input);
  return resultOf(child);
}

export async function resultOf(child: ChildProcess): Promise<CliResult> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { code: code ?? (signal === 'SIGKILL' ? 137 : -1), stdout, stderr };
}

export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

const MODELS = fileURLToPath(new URL('../fixtures/models/', import.meta.url));

/** A tiny LLaMA with random weights: 256 ids, no tokenizer, a context of 128 tokens. */
export const TINY_MODEL = join(MODELS, 'llama-Q8_0.gguf');

/** The same shape as a folder of safetensors, with a tokenizer in which each byte is a token: byte b has id b + 3. */
export function tinyModelWithTokenizer(folder: string): string {
  if (existsSync(folder)) return folder;
  cpSync(join(MODELS, 'llama'), folder, { recursive: true });
  const control = ['<pad>', '<s>', '</s>'];
  const vocabulary = Object.fromEntries([
    ...control.map((name, id) => [name, id] as const),
    ...byteLetters()
      .slice(0, 253)
      .map((letter, byte) => [letter, byte + 3] as const),
  ]);
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    added_tokens: control.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [],
      special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
    },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: vocabulary,
      merges: [],
    },
  };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  writeFileSync(
    join(folder, 'tokenizer_config.json'),
    JSON.stringify({
      tokenizer_class: 'PreTrainedTokenizerFast',
      bos_token: '<s>',
      eos_token: '</s>',
      add_bos_token: true,
      clean_up_tokenization_spaces: false,
      chat_template: "{{ bos_token }}{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}",
    }),
  );
  return folder;
}

/**
 * The letters that byte-level tokenizers write for bytes: printable ones stand for themselves, others follow from
 * U+0100.
 */
function byteLetters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCodePoint(printable ? byte : next++);
  });
}
