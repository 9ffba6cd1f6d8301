// Models of random weights and random vocabularies, of any size: what they say means nothing, and every token may come.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './commandLine.mjs';

const [HIDDEN, INNER] = [32, 64];

/** Bytes as GPT-2's tokenizers write them. */
function byteCharacters() {
  const printable = (byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

/** A vocabulary of bytes and of what random merges make of them; most of it is of characters that stand in JSON. */
function randomTokenizer(random, size) {
  const ends = ['<|end|>'];
  const tokens = byteCharacters();
  const known = new Set(tokens);
  const usual = [...'{}[]",:0123456789.-etrufalsn abcdxyz'].map((char) => (char === ' ' ? 'Ġ' : char));
  const merges = [];
  while (tokens.length < size - ends.length) {
    const pick = () =>
      random() < 0.7 ? usual[Math.floor(random() * usual.length)] : tokens[Math.floor(random() * tokens.length)];
    const [left, right] = [pick(), pick()];
    if (known.has(left + right) || left.length + right.length > 12) continue;
    known.add(left + right);
    tokens.push(left + right);
    merges.push(`${left} ${right}`);
  }
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  return {
    version: '1.0',
    normalizer: null,
    pre_tokenizer: bytes,
    post_processor: null,
    decoder: bytes,
    added_tokens: ends.map((content, id) => ({
      id: tokens.length + id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      vocab: Object.fromEntries([...tokens, ...ends].map((token, id) => [token, id])),
      merges,
    },
  };
}

/** Writes a LLaMA of one layer as a folder. @returns its path */
export function writeRandomModel(folder, random, vocabulary) {
  mkdirSync(folder, { recursive: true });
  const config = JSON.parse(readFileSync(join(ROOT, 'test/fixtures/models/llama/config.json'), 'utf8'));
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({
      ...config,
      vocab_size: vocabulary,
      hidden_size: HIDDEN,
      intermediate_size: INNER,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      num_key_value_heads: 2,
      head_dim: HIDDEN / 2,
      max_position_embeddings: 2048,
      tie_word_embeddings: true,
      bos_token_id: null,
      eos_token_id: vocabulary - 1,
    }),
  );
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(randomTokenizer(random, vocabulary)));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ eos_token: '<|end|>' }));
  const layer = 'model.layers.0.';
  const shapes = {
    'model.embed_tokens.weight': [vocabulary, HIDDEN],
    'model.norm.weight': [HIDDEN],
    [`${layer}input_layernorm.weight`]: [HIDDEN],
    [`${layer}post_attention_layernorm.weight`]: [HIDDEN],
    ...Object.fromEntries(
      ['q', 'k', 'v', 'o'].map((name) => [`${layer}self_attn.${name}_proj.weight`, [HIDDEN, HIDDEN]]),
    ),
    [`${layer}mlp.gate_proj.weight`]: [INNER, HIDDEN],
    [`${layer}mlp.up_proj.weight`]: [INNER, HIDDEN],
    [`${layer}mlp.down_proj.weight`]: [HIDDEN, INNER],
  };
  let offset = 0;
  const header = {};
  const parts = Object.entries(shapes).map(([name, shape]) => {
    const values = Float32Array.from({ length: shape.reduce((product, size) => product * size, 1) }, () =>
      shape.length === 1 ? 1 : (random() - 0.5) * 0.6,
    );
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, (offset += values.byteLength)] };
    return Buffer.from(values.buffer);
  });
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([length, text, ...parts]));
  return folder;
}
