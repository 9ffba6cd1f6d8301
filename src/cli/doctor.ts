import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT } from './exitCodes.js';
import { addSwitch } from './flags/commandFlags.js';
import { diagnose, formatBytes, type Diagnosis } from './library.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';

const GIB = 2 ** 30;
/** With less, hardly a model runs. */
const LEAST = { memory: GIB, disk: GIB };

export function addDoctor(program: Command, context: CommandContext): void {
  const command = program
    .command('doctor')
    .description(
      'One page about this machine: what Spillway finds here, what is wrong, and what to do. For issues, too.',
    );
  addSwitch(command, '--json', 'print one JSON document, not a table');
  command.action(async ({ json }: { readonly json: boolean }) => {
    checkStandardOutput();
    const facts = await diagnose();
    const problems = problemsOf(facts);
    await context.print(
      json ? `${JSON.stringify({ ...facts, problems }, undefined, 2)}\n` : describeDoctor(facts, problems),
    );
    if (problems.length > 0) context.exitCode = EXIT.unusable;
  });
}

/** Says what is wrong here, each with its remedy. */
export function problemsOf({ node, addon, machine, folders, gpuDriver }: Diagnosis): string[] {
  return [
    ...(node.problem === undefined ? [] : [`Node: ${node.problem}`]),
    ...('problem' in addon ? [`addon: ${addon.problem}`] : []),
    ...(machine !== undefined && machine.availableBytes < LEAST.memory
      ? [`memory: ${formatBytes(machine.availableBytes)} are free; end other programs, or raise the container's limit`]
      : []),
    ...folders.flatMap(({ what, path, problem, freeBytes = Infinity }) => [
      ...(problem === undefined
        ? []
        : [
            `${what}: ${path} cannot be written: ${problem}; ${path.includes('huggingface') ? 'HF_HUB_CACHE' : 'XDG_CACHE_HOME'} names another place`,
          ]),
      ...(freeBytes < LEAST.disk
        ? [`${what}: ${path} has ${formatBytes(freeBytes)} free; \`spillway models --remove NAME\` makes room`]
        : []),
    ]),
    ...(gpuDriver !== undefined && machine?.gpus.length === 0
      ? [
          `GPU: there is a driver (${gpuDriver}), but the addon sees no GPU: it was built without CUDA (npm install @spillway/linux-x64-cuda), or the container has no access to it (--gpus all)`,
        ]
      : []),
  ];
}

function describeDoctor(
  {
    spillway,
    node,
    system,
    addon,
    machine,
    residentBytes,
    cgroup,
    limits,
    heapLimitBytes,
    gpuDriver,
    folders,
    models,
    environment,
  }: Diagnosis,
  problems: readonly string[],
): string {
  const gpus =
    machine?.gpus.map(
      ({ name, memoryBytes, computeCapability, driver }) =>
        `${name}, ${formatBytes(memoryBytes)}, compute capability ${computeCapability}, CUDA ${driver}`,
    ) ?? [];
  const total = models.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = [
    ['Spillway', spillway],
    ['Node', node.version],
    ['system', system],
    [
      'addon',
      'path' in addon
        ? `${addon.path}${environment['SPILLWAY_ADDON'] === undefined ? '' : ' (as SPILLWAY_ADDON says)'}`
        : 'cannot be loaded',
    ],
    ...(machine === undefined
      ? []
      : [
          ['processor', `${machine.processorName}, ${machine.processors} for this process`],
          ['instruction sets', machine.instructionSets.join(', ')],
          [
            'memory',
            `${formatBytes(machine.memoryBytes)}, ${formatBytes(machine.availableBytes)} of it free; this process has ${formatBytes(residentBytes)}`,
          ],
        ]),
    ...(cgroup === undefined
      ? []
      : [['cgroup', `memory ${cgroup.memoryLimit || 'not said'}, processors ${cgroup.cpuLimit || 'not said'}`]]),
    ...limits.map(({ what, flag, limitBytes, usedBytes }) => [
      'limit',
      `${formatBytes(limitBytes)} of ${what} (ulimit ${flag} ${Math.floor(limitBytes / 1024)}); this process has ${formatBytes(usedBytes)}`,
    ]),
    ['JavaScript heap', `${formatBytes(heapLimitBytes)} at most`],
    ['GPU', gpus.length > 0 ? gpus.join('; ') : 'none that the addon sees'],
    ['GPU driver', gpuDriver ?? 'none'],
    ...folders.map(({ what, path, freeBytes, problem }) => [
      'folder',
      `${path}: ${what}; ${freeBytes === undefined ? 'no disk found' : `${formatBytes(freeBytes)} free`}${problem === undefined ? '' : '; cannot be written'}`,
    ]),
    [
      'models',
      models.length === 0
        ? 'none fetched'
        : `${models.length} fetched, ${formatBytes(total)} (spillway models lists them)`,
    ],
    ...Object.entries(environment).map(([name, value]) => ['variable', `${name}: ${value}`]),
  ];
  const verdict =
    problems.length === 0
      ? ['Nothing is wrong here.']
      : ['What is wrong, and what to do:', ...problems.map((problem) => `- ${problem}`)];
  return `${formatTable(rows)}\n${verdict.join('\n')}\n`;
}
