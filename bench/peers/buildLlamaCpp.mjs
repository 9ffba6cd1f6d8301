// Builds llama-batched-bench for this very processor (native instruction set, OpenMP, release), the fastest form of
// llama.cpp that there is here. The source is the one that the Python package llama-cpp-python carries, from PyPI, or
// any checkout of llama.cpp or ik_llama.cpp (--source). Beside it, of llama.cpp, the server of its rpc backend.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { cacheFolder } from '../lib/cacheFolder.mjs';

/** What the comparison was made with; its llama.cpp is of the same weeks. */
const PACKAGE = 'llama-cpp-python';
const VERSION = '0.3.36';

const USAGE = `usage: node bench/peers/buildLlamaCpp.mjs [--source FOLDER --name ik_llama.cpp --version TEXT] [--cache FOLDER] [--jobs 2]
  without --source: the source is fetched from PyPI (${PACKAGE} ${VERSION}, 77 MB)
needs: cmake, a C++17 compiler, and pip and tar for the fetch; prints the path of the program`;

/** Runs a command with its output on standard error; ends this process with one sentence where it fails. */
function step(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  process.stderr.write(`${command} ${args[0]}: ${error ? error.message : `ended with ${status}`}\n`);
  process.exit(1);
}

/** @returns the folder of the source of llama.cpp inside the unpacked package */
function fetchSource(cache) {
  const unpacked = join(cache, `${PACKAGE.replaceAll('-', '_')}-${VERSION}`);
  const source = join(unpacked, 'vendor', 'llama.cpp');
  if (existsSync(join(source, 'CMakeLists.txt'))) return source;
  step('pip', ['download', '--no-binary', PACKAGE, '--no-deps', `${PACKAGE}==${VERSION}`, '--dest', cache]);
  const archive = readdirSync(cache).find((name) => name.startsWith('llama_cpp_python-') && name.endsWith('.tar.gz'));
  if (archive === undefined) {
    process.stderr.write(`${cache}: pip left no source package of ${PACKAGE} there\n`);
    process.exit(1);
  }
  step('tar', ['-xzf', join(cache, archive), '-C', cache]);
  return source;
}

/** The options of both programs; each ignores, with a warning, those that only the other knows. */
const OPTIONS = {
  CMAKE_BUILD_TYPE: 'Release',
  BUILD_SHARED_LIBS: 'OFF',
  GGML_NATIVE: 'ON',
  GGML_OPENMP: 'ON',
  GGML_RPC: 'ON',
  LLAMA_BUILD_TESTS: 'OFF',
  LLAMA_BUILD_SERVER: 'OFF',
  LLAMA_BUILD_APP: 'OFF',
  LLAMA_BUILD_UI: 'OFF',
  LLAMA_USE_PREBUILT_UI: 'OFF',
  LLAMA_OPENSSL: 'OFF',
  LLAMA_CURL: 'OFF',
  LLAMA_ALL_WARNINGS: 'OFF',
  // Attention over every pair of cache types takes ik_llama.cpp most of an hour to compile; the comparison uses the
  // usual ones.
  GGML_IQK_FA_ALL_QUANTS: 'OFF',
  CMAKE_CXX_FLAGS: `-w -include ${fileURLToPath(new URL('tileConfig.h', import.meta.url))}`,
};

export function buildLlamaCpp({ source, name, version, cache, jobs }) {
  mkdirSync(cache, { recursive: true });
  const build = join(cache, `build-${name}`);
  const from = source ?? fetchSource(cache);
  step('cmake', ['-S', from, '-B', build, ...Object.entries(OPTIONS).map(([key, value]) => `-D${key}=${value}`)]);
  const server = existsSync(join(from, 'tools/rpc')) ? ['ggml-rpc-server'] : [];
  step('cmake', ['--build', build, '--target', 'llama-batched-bench', ...server, '--parallel', String(jobs)]);
  const program = join(build, 'bin', 'llama-batched-bench');
  writeFileSync(join(build, 'version.txt'), `${version}\n`);
  return program;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      source: { type: 'string' },
      name: { type: 'string', default: 'llama.cpp' },
      version: { type: 'string' },
      cache: { type: 'string', default: cacheFolder() },
      jobs: { type: 'string', default: '2' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help || !/^[1-9]\d?$/.test(values.jobs) || !/^[\w.-]+$/.test(values.name)) {
    process.stderr.write(`${USAGE}\n`);
    process.exit(values.help ? 0 : 1);
  }
  if (values.source !== undefined && !existsSync(join(values.source, 'CMakeLists.txt'))) {
    process.stderr.write(`--source: found no CMakeLists.txt in ${values.source}, expected a checkout of llama.cpp or ik_llama.cpp\n`);
    process.exit(1);
  }
  const program = buildLlamaCpp({
    ...values,
    source: values.source === undefined ? undefined : resolve(values.source),
    version: values.version ?? (values.source === undefined ? `of ${PACKAGE} ${VERSION}` : 'of a given source'),
    cache: resolve(values.cache),
    jobs: Number(values.jobs),
  });
  process.stdout.write(`${program}\n`);
}
