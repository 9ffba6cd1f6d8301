// Rows, tables and outputs that ask for what no row may have: each a file of input, with rows before and after it that
// are to be answered all the same.
import { once } from 'node:events';
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ByteWriter, parquetWrite } from 'hyparquet-writer';

const MIB = 2 ** 20;
/** Rows before and after what attacks. */
const HONEST = 20;
/** Units of a text that the tiny model, whose context holds 2,048 tokens, still takes: 256 Ki, and 64 for each of these. */
const WITHIN = 2 ** 18 + 64 * 2048 - 8;

const honest = (id) => `{"id":"honest-${id}","tokens":[1,${3 + (id % 250)},9]}`;
const listOf = (count, item) => Array.from({ length: count }, (_, at) => item(at)).join();
/** So many bytes of an item again and again, as JSON. */
const filled = (item, bytes) => `[${item.concat(',').repeat(Math.floor(bytes / (item.length + 1)))}${item}]`;

async function written(file, pieces) {
  const stream = createWriteStream(file);
  for (const piece of pieces) if (!stream.write(piece)) await once(stream, 'drain');
  await once(stream.end(), 'close');
  return file;
}

/** Lines that attack, among honest ones. @param {() => Iterable<string>} lines made when they are needed */
const lines = (name, make, more = {}) => ({
  name,
  honest: 2 * HONEST,
  write: (folder) =>
    written(
      join(folder, 'in.jsonl'),
      (function* () {
        for (let at = 0; at < HONEST; at += 1) yield `${honest(at)}\n`;
        for (const line of make()) yield `${line}\n`;
        for (let at = 0; at < HONEST; at += 1) yield `${honest(HONEST + at)}\n`;
      })(),
    ),
  ...more,
});
const row = (name, json, more) => lines(name, () => [json()], more);
const note = (name, json, more) => row(name, () => `{"id":"a","tokens":[7],"note":${json()}}`, more);

/** A table whose header has so many columns, and rows of as many values; the prompts are short. */
const columns = (count, more = {}) => ({
  name: `${count} columns of CSV`,
  honest: 0,
  write: (folder) =>
    written(
      join(folder, 'in.csv'),
      (function* () {
        yield 'id,prompt';
        for (let at = 2; at < count; at += 1) yield `,c${at.toString(16)}`;
        for (let id = 0; id < 2; id += 1) {
          yield `\nhonest-${id},a`;
          for (let at = 2; at < count; at += 1000) yield ','.repeat(Math.min(1000, count - at));
        }
        yield '\n';
      })(),
    ),
  ...more,
});

/** Columns of texts that are all alike, compressed to nearly nothing. */
function bomb(count, mib, rows) {
  return {
    name: `${count} columns of Parquet, ${mib} MiB each in ${rows} rows`,
    honest: 0,
    async write(folder) {
      const text = 'a'.repeat(mib * MIB);
      const column = (name, data) => ({ name, data, type: 'STRING' });
      const writer = new ByteWriter();
      await parquetWrite({
        writer,
        columnData: [
          column(
            'id',
            Array.from({ length: rows }, (_, at) => `bomb-${at}`),
          ),
          column(
            'prompt',
            Array.from({ length: rows }, () => 'a'),
          ),
          ...Array.from({ length: count }, (_, at) => column(`c${at}`, new Array(rows).fill(text))),
        ],
        statistics: false,
        codec: 'GZIP',
        compressors: { GZIP: (bytes) => gzipSync(bytes, { level: 1 }) },
      });
      const file = join(folder, 'in.parquet');
      writeFileSync(file, new Uint8Array(writer.getBuffer()));
      return file;
    },
  };
}

const user = (content) => `{"role":"user","content":${content}}`;
const text = (piece, bytes) => JSON.stringify(piece.repeat(Math.floor(bytes / Buffer.byteLength(piece))));
const schema = (json) => `{"type":"json_schema","schema":${json}}`;
const asked = (format) => `{"id":"a","prompt":"a","responseFormat":${format}}`;
const tools = (parameters, count = 1) =>
  `{"id":"a","messages":[${user('"a"')}],"tools":[${listOf(count, (at) => `{"type":"function","function":{"name":"f${at}","parameters":${parameters}}}`)}]}`;
const normalized = (...normalizers) => ({ normalizer: { type: 'Sequence', normalizers } });

/**
 * {name, write: (folder) => the input's path, honest: rows that have to be answered, parts?: of the model's
 * tokenizer.json, config?: of its config.json, template?: its chat template, flags?, codes?: what it may end with
 * beside 0 and 4, resume?: what is written over the output before the run is gone on with}.
 */
export const ATTACKS = [
  row('65,536 samples of a long stop', () => `{"id":"a","tokens":[5],"samples":65536,"stop":[${text('ab', 50_000)}]}`),
  row('65,536 samples', () => `{"id":"a","tokens":[5],"samples":65536,"maxNewTokens":1}`),
  row('1,024 stops', () => `{"id":"a","tokens":[5],"stop":[${listOf(1024, (at) => `"${'ab'.repeat(7)}${at}"`)}]}`),
  row('100,000 stops', () => `{"id":"a","tokens":[5],"stop":[${listOf(100_000, (at) => `"s${at}"`)}]}`),
  row('4,096 bad words', () => `{"id":"a","tokens":[5],"badWords":[${listOf(4096, (at) => `"w${at}"`)}]}`),
  row('100,000 bad words', () => `{"id":"a","tokens":[5],"badWords":[${listOf(100_000, (at) => `"w${at}"`)}]}`),
  row(
    'a million entries of logitBias',
    () => `{"id":"a","tokens":[5],"logitBias":{${listOf(1_000_000, (at) => `"${at}":1`)}}}`,
  ),
  row('a million stop ids', () => `{"id":"a","tokens":[5],"stopTokenIds":[${listOf(1_000_000, (at) => at % 200)}]}`),
  note('60 MiB of objects', () => filled('{}', 60 * MIB)),
  note('8 MiB of objects', () => filled('{}', 7.9 * MIB)),
  note('60 MiB of lists', () => filled('[]', 60 * MIB)),
  note('60 MiB of text', () => text('what is so ', 60 * MIB)),
  note('8 MiB of text, carried', () => text('what is so ', 7.9 * MIB), { flags: ['--carry-fields'] }),
  note('8 MiB of keys', () => `{${listOf(700_000, (at) => `"k${at}":1`)}}`, { flags: ['--carry-fields'] }),
  note('8 MiB of fractions', () => filled('0.12345678901234567', 7.9 * MIB), { flags: ['--carry-fields'] }),
  note('8 MiB of long numbers', () => filled('90071992547409931234', 7.9 * MIB), { flags: ['--carry-fields'] }),
  note('4 Mi brackets', () => '['.repeat(4 * MIB) + ']'.repeat(4 * MIB)),
  note('1,000 brackets', () => '['.repeat(1000) + ']'.repeat(1000), { flags: ['--carry-fields'] }),
  row('a line of 250 MiB', () => `{"id":"a","prompt":${text('what is so ', 250 * MIB)}}`),
  row('an id of 8 MiB', () => `{"id":${text('i', 7.9 * MIB)},"tokens":[7]}`),
  row('8 MiB of ids', () => `{"id":"a","tokens":${filled('7', 7.9 * MIB)}}`),
  row('a text of 8 MiB', () => `{"id":"a","prompt":${text('what is so ', 7.9 * MIB)}}`),
  row('a text as long as it may be', () => `{"id":"a","prompt":${text('what is so ', WITHIN)}}`),
  row('a word as long as it may be', () => `{"id":"a","prompt":${text('a', WITHIN)}}`),
  row('blanks', () => `{"id":"a","prompt":${text(' ', WITHIN)}}`),
  ...[
    ['Lowercase', [{ type: 'Lowercase' }]],
    ['Strip', [{ type: 'Strip', strip_left: true, strip_right: true }]],
    ['NFKC', [{ type: 'NFKC' }]],
    ['NFD and StripAccents', [{ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }]],
    ['BERT', [{ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase: true }]],
    ['Replace', [{ type: 'Replace', pattern: { Regex: String.raw`\s{2,}` }, content: ' ' }]],
  ].flatMap(([name, normalizers]) =>
    [
      ['letters', 'WHAT IS SÖ '],
      ['blanks', ' '],
      ['signs', 'İ見㍍'],
      ['accents', 'e\u0301'],
    ].map(([what, piece]) =>
      row(
        `${name}: ${what}`,
        () => `{"id":"a","prompt":${JSON.stringify(piece.repeat(Math.floor(WITHIN / piece.length)))}}`,
        { parts: normalized(...normalizers) },
      ),
    ),
  ),
  row('a word as long as it may be, cut at nothing', () => `{"id":"a","prompt":${text('abc', WITHIN)}}`, {
    parts: { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false } },
  }),
  row('digits', () => `{"id":"a","prompt":${text('7', WITHIN)}}`, {
    parts: {
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          {
            type: 'Split',
            pattern: { Regex: String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\p{L}+|\s+|[^\s\p{L}\p{N}]+` },
            behavior: 'Isolated',
            invert: false,
          },
          { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
        ],
      },
    },
  }),
  row(
    '5,400 messages',
    () =>
      `{"id":"a","messages":[${listOf(5_400, (at) => `{"role":"${at % 2 ? 'assistant' : 'user'}","content":"a"}`)}]}`,
  ),
  row('100,000 messages', () => `{"id":"a","messages":[${listOf(100_000, () => user('"a"'))}]}`),
  row(
    '5,400 messages, a template that looks at each of them',
    () =>
      `{"id":"a","messages":[${listOf(5_400, (at) => `{"role":"${at % 2 ? 'assistant' : 'user'}","content":"a b"}`)}]}`,
    {
      template:
        "{% for m in messages %}{% if loop.first or m.role != loop.previtem.role %}{{ m.role | upper }}: {% endif %}{{ (m.content | trim).split(' ') | join('-') | replace('a', 'b') | tojson }}\n{% endfor %}",
    },
  ),
  row('a message as long as it may be', () => `{"id":"a","messages":[${user(text('what is so ', WITHIN - 100))}]}`, {
    template: "{% for m in messages %}{{ m.content | trim | upper | replace('A', 'bb') | tojson }}\n{% endfor %}",
  }),
  row('a message of 8 MiB', () => `{"id":"a","messages":[${user(text('what is so ', 7.9 * MIB))}]}`),
  row(
    'a message of 5,400 parts',
    () => `{"id":"a","messages":[${user(`[${listOf(5_400, (at) => `{"type":"text","text":"t${at}"}`)}]`)}]}`,
    { template: '{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}' },
  ),
  ...[
    ['steps', '{% for m in messages %}{% for i in range(700) %}{% set x = i %}{% endfor %}{% endfor %}a'],
    ['texts', '{% for m in messages %}{% set x = (m.content * 9000)|reverse %}{% endfor %}a'],
    ['lists', "{% for m in messages %}{% set x = range(1500)|list|reverse|map('string')|join(',') %}{% endfor %}a"],
  ].map(([what, template]) =>
    row(
      `5,400 messages, a template that takes all ${what} it may`,
      () => `{"id":"a","messages":[${listOf(5_400, () => user('"a"'))}]}`,
      { template },
    ),
  ),
  ...[
    ['words', 'what is so '],
    ['beginnings of control tokens', '<|im_start|<'],
  ].map(([what, piece]) =>
    row(
      `a message of 7.9 MiB in a long context, as data: ${what}`,
      () => `{"id":"a","messages":[${user(text(piece, 7.9 * MIB))}]}`,
      { config: { max_position_embeddings: 131_072 }, flags: ['--escape-special-tokens'] },
    ),
  ),
  row(
    '16,000 values of templateArgs',
    () => `{"id":"a","messages":[${user('"a"')}],"templateArgs":{"x":[${listOf(16_000, (at) => `${at}.5`)}]}}`,
    { template: "{{ x | tojson }}{{ x | sort | join(',') }}{{ x | unique | list | length }}{{ messages[0].content }}" },
  ),
  row(
    'keys that differ in their last letter, sorted',
    () =>
      `{"id":"a","messages":[${user('"a"')}],"templateArgs":{"x":[${listOf(5000, (at) => `"${'k'.repeat(150)}${at}"`)}]}}`,
    { template: "{{ x | sort | join(',') }}{{ x | sort(reverse=true) | tojson }}{{ messages[0].content }}" },
  ),
  row('3,000 times multipleOf', () =>
    asked(schema(`{"allOf":[${listOf(3000, (at) => `{"multipleOf":${(at % 97) + 1}}`)}]}`)),
  ),
  row('10,000 properties', () =>
    asked(schema(`{"type":"object","properties":{${listOf(9900, (at) => `"p${at}":{"type":"integer"}`)}}}`)),
  ),
  row('100,000 choices', () =>
    asked(schema(`{"enum":[${listOf(100_000, (at) => `"c ${(at * 7919) % 1_000_003}"`)}]}`)),
  ),
  row('30,000 labels', () => asked(`{"type":"choices","choices":[${listOf(30_000, (at) => `"c${at}"`)}]}`)),
  row('512 alternatives of 512', () =>
    asked(schema(`{"anyOf":[${listOf(512, (at) => `{"type":"object","properties":{"p${at}":{"enum":[1,2,3]}}}`)}]}`)),
  ),
  row('a pattern with 10,000 repetitions', () =>
    asked(schema('{"type":"string","pattern":"^(a{1,100}b{1,100}){1,100}$"}')),
  ),
  row('a pattern that backtracks', () =>
    asked(schema(`{"type":"string","pattern":"^((a|aa)+)+$","not":{"pattern":"(x+x+)+y"}}`)),
  ),
  row('a schema of 8 MiB', () => asked(schema(`{"title":${text('t', 7.9 * MIB)}}`))),
  row('64 levels', () => asked(schema(`${'{"type":"array","items":'.repeat(63)}{"type":"integer"}${'}'.repeat(63)}`))),
  row('references', () =>
    asked(
      schema(
        `{"$defs":{${listOf(2000, (at) => `"d${at}":{"type":"object","properties":{"n":{"$ref":"#/$defs/d${(at + 1) % 2000}"}}}`)}},"$ref":"#/$defs/d0"}`,
      ),
    ),
  ),
  row('a tool of 9,000 parameters', () =>
    tools(`{"type":"object","properties":{${listOf(9000, (at) => `"p${at}":{"type":"integer"}`)}}}`),
  ),
  row('a tool whose parameters all refer to large definitions', () =>
    tools(
      `{"type":"object","$defs":{${listOf(2000, (at) => `"d${at}":{"type":"object","properties":{"n":{"enum":[${at}]}}}`)}},"properties":{${listOf(2000, (at) => `"p${at}":{"$ref":"#/$defs/d${at}"}`)}}}`,
    ),
  ),
  row('1,024 tools', () =>
    tools('{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}', 1024),
  ),
  row('8 MiB of tools', () => tools('{"type":"object","properties":{"a":{"type":"string"}}}', 60_000)),
  columns(25_000),
  columns(65_536),
  columns(100_000, { codes: [2] }),
  columns(3_000_000, { codes: [2] }),
  {
    name: '65,000 columns of CSV, carried, in 40 rows',
    honest: 40,
    write: (folder) =>
      written(
        join(folder, 'in.csv'),
        (function* () {
          yield `id,prompt,${listOf(65_000, (at) => `c${at}`)}\n`;
          for (let id = 0; id < 40; id += 1) yield `honest-${id},a${','.repeat(65_000)}\n`;
        })(),
      ),
    flags: ['--carry-fields'],
  },
  bomb(12, 40, 1),
  bomb(12, 120, 1),
  bomb(3, 200, 1),
  bomb(2, 8, 60),
  bomb(100, 1, 20),
  {
    ...bomb(3, 60, 1),
    name: '3 columns of 60 MiB in a template',
    flags: ['--prompt-template', '{{c0}} {{c1}} {{c2}}'],
  },
  {
    name: 'lists of 100,000 numbers in 300 rows, carried',
    honest: 300,
    write: (folder) =>
      written(
        join(folder, 'in.jsonl'),
        (function* () {
          const vector = listOf(100_000, (at) => at % 10);
          for (let id = 0; id < 300; id += 1)
            yield `{"id":"honest-${id}","tokens":[5,${3 + (id % 250)}],"vector":[${vector}]}\n`;
        })(),
      ),
    flags: ['--carry-fields', '--ignore-eos'],
  },
  {
    name: 'a list of 6,000,000 texts by SQL',
    honest: 0,
    write: () => "sql:select 'a' as id, [1, 3, 9] as tokens, list('item' || i) as note from range(6000000) t(i)",
    flags: ['--carry-fields'],
    codes: [2],
  },
  {
    name: '2,000 rows of 4 MiB by SQL',
    honest: 0,
    write: () => "sql:select i as id, [1, 3, 9] as tokens, repeat('what is so ', 400000) as note from range(2000) t(i)",
    flags: ['--carry-fields'],
    codes: [2],
  },
  {
    name: 'a value of 8 MB in an error by SQL',
    honest: 0,
    write: () => "sql:select 'a' as id, [1, 3, 9] as tokens, cast(repeat('a', 8000000) as integer) as note",
    codes: [2],
  },
  {
    name: 'a first line of 8 MiB that is no JSON',
    honest: HONEST,
    write: (folder) =>
      written(
        join(folder, 'in.jsonl'),
        (function* () {
          yield `${','.repeat(7.9 * MIB)}.\n`;
          for (let at = 0; at < HONEST; at += 1) yield `${honest(at)}\n`;
        })(),
      ),
  },
  lines('log-probabilities without number', () => [`{"id":"a","tokens":[5]}`], {
    flags: ['--logprobs', '250', '--ignore-eos', '--max-new-tokens', '100'],
  }),
  ...[
    [
      '250 MiB of objects',
      () => `{"id":1,"index":0,"text":"","finishReason":"stop","usage":{},"x":${filled('{}', 250 * MIB)}}\n`,
    ],
    [
      '20 MiB of objects',
      () => `{"id":1,"index":0,"text":"","finishReason":"stop","usage":{},"x":${filled('{}', 20 * MIB)}}\n`,
    ],
    ['brackets', () => `{"id":1,"index":0,"x":${'['.repeat(10 * MIB)}\n`],
  ].map(([what, json]) =>
    lines(`an output with ${what}, gone on with`, () => [], { resume: json, codes: [2], honest: 0 }),
  ),
];
