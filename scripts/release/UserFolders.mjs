import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, 'scripts', 'release', 'answer.mjs');
const model = join(root, 'test', 'fixtures', 'models', 'llama-Q8_0.gguf');

/** Folders of new users, who install from a registry of this machine, and whose caches are empty. */
export class UserFolders {
  /** Versions of tools that are as well tried as the project itself. */
  versions = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).devDependencies;
  scratch = mkdtempSync(join(tmpdir(), 'spillway-try-'));
  #registry;
  #environment;
  #expected;
  #filled;
  #tools;

  /** @param registry its address */
  constructor(registry) {
    this.#registry = registry;
    const cache = (name) => join(this.scratch, 'caches', name);
    this.#environment = {
      ...process.env,
      npm_config_cache: cache('npm'),
      npm_config_update_notifier: 'false',
      npm_config_audit: 'false',
      npm_config_fund: 'false',
      YARN_CACHE_FOLDER: cache('yarn'),
      YARN_NPM_REGISTRY_SERVER: registry,
      YARN_UNSAFE_HTTP_WHITELIST: '127.0.0.1',
      YARN_ENABLE_TELEMETRY: 'false',
      YARN_ENABLE_GLOBAL_CACHE: 'false',
      YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
      XDG_CACHE_HOME: cache('other'),
      XDG_DATA_HOME: cache('data'),
    };
  }

  /** A new one, with the first program in it. */
  make(name) {
    const folder = join(this.scratch, name.replaceAll(/\W+/g, '-'));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
    writeFileSync(join(folder, '.npmrc'), `registry=${this.#registry}/\n`);
    copyFileSync(program, join(folder, 'answer.mjs'));
    return folder;
  }

  /** The one that npm has filled, for what is about something else. */
  filled() {
    return (this.#filled ??= this.#fill());
  }

  async #fill() {
    const folder = this.make('filled');
    await this.run(folder, ['npm', 'install', 'spillway', '--ignore-scripts']);
    return folder;
  }

  /** TypeScript and esbuild beside it. */
  tools() {
    return (this.#tools ??= this.filled().then(async (folder) => {
      const names = ['typescript', 'esbuild', '@types/node'];
      await this.run(folder, [
        'npm',
        'install',
        '--save-dev',
        ...names.map((name) => `${name}@${this.versions[name]}`),
      ]);
      return folder;
    }));
  }

  /** Runs the command to its end. @returns what it wrote @throws with what it said where it fails */
  run(folder, [file, ...args], more = {}) {
    return new Promise((resolve, reject) => {
      const env = { ...this.#environment, ...more };
      const child = spawn(file, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
      const said = { stdout: '', stderr: '' };
      for (const stream of Object.keys(said)) child[stream].on('data', (text) => (said[stream] += text));
      child.on('error', reject);
      child.on('close', (code) => {
        if (code === 0) resolve(said.stdout.trim());
        else reject(new Error(`${[file, ...args].join(' ')}: exit ${code}\n${said.stdout}${said.stderr}`));
      });
    });
  }

  /** Answers a row there, by a command that runs a program. @throws where it is not what the checkout's build answers */
  async answer(folder, command, more) {
    this.#expected ??= this.run(root, [process.execPath, program, model]);
    const [found, expected] = await Promise.all([this.run(folder, [...command, model], more), this.#expected]);
    if (found !== expected) throw new Error(`${command.join(' ')}: found the answer ${found}, expected ${expected}`);
  }

  remove() {
    rmSync(this.scratch, { recursive: true, force: true });
  }
}
