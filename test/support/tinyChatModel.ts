import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/**
 * The characters that GPT-2's byte-level tokenizers write bytes as: printable ones as themselves, the others from
 * U+0100 on.
 */
function byteCharacters(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

/**
 * A folder with the tiny random LLaMA of the fixtures and a tokenizer with one token a byte (but for the last three,
 * which UTF-8 never uses) and a chat template: whatever a real chat model accepts, it accepts. What it says means
 * nothing, but is always the same.
 */
export async function tinyChatModel({
  template = TEMPLATE,
  control = [],
}: {
  /** The chat template. */
  readonly template?: string;
  /** Control tokens beside the three usual ones: eight at most, in the place of bytes that UTF-8 never uses. */
  readonly control?: readonly string[];
} = {}): Promise<{ readonly path: string } & AsyncDisposable> {
  const special = [...SPECIAL, ...control];
  const path = await mkdtemp(join(tmpdir(), 'spillway-tiny-'));
  await cp('test/fixtures/models/llama', path, { recursive: true });
  const config = JSON.parse(await readFile(join(path, 'config.json'), 'utf8')) as Record<string, unknown>;
  await writeFile(join(path, 'config.json'), JSON.stringify({ ...config, max_position_embeddings: 2048 }));
  const vocab = Object.fromEntries(
    [...special, ...byteCharacters().slice(0, 256 - special.length)].map((token, id) => [token, id]),
  );
  await writeFile(
    join(path, 'tokenizer.json'),
    JSON.stringify({
      version: '1.0',
      added_tokens: special.map((content, id) => ({
        id,
        content,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
      })),
      normalizer: null,
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
      post_processor: null,
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        vocab,
        merges: [],
      },
    }),
  );
  await writeFile(
    join(path, 'tokenizer_config.json'),
    JSON.stringify({ eos_token: '<|im_end|>', chat_template: template }),
  );
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
